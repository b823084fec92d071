-- Locks workflow runs of these shards for which there are notes, those with the oldest notes first; one that another
-- transaction holds is left to it. `aside`: those that can't be dealt with now. The commit need not wait for the disk: if the
-- server crashes, the notes are back, too, and whoever was told of what was made commits after it.
-- Index: flow_notes_oldest, primary keys.
-- Locks: the workflow runs, FOR UPDATE SKIP LOCKED.
-- Idioms: OFFSET 0.
WITH noted AS MATERIALIZED (
    SELECT n.namespace, n.flow, min(n.noted_at) AS oldest
      FROM unnest(:shards::smallint[]) AS s (shard)
     CROSS JOIN LATERAL (
           SELECT n.namespace, n.flow, n.noted_at FROM rota.flow_notes AS n
            WHERE n.shard = s.shard AND n.flow <> ALL (:aside::uuid[])
            ORDER BY n.noted_at LIMIT :notes
           ) AS n
     GROUP BY n.namespace, n.flow
     ORDER BY oldest
     LIMIT :flows
)
SELECT w.*, set_config('synchronous_commit', 'off', true), coalesce(w.payload, p.body) AS inputs,
       extract(epoch FROM clock_timestamp())::float8 AS database_time
  FROM noted AS n
 CROSS JOIN LATERAL (
       SELECT * FROM rota.workflow_runs AS w WHERE w.namespace = n.namespace AND w.id = n.flow
       OFFSET 0 FOR UPDATE SKIP LOCKED
       ) AS w
  LEFT JOIN LATERAL (
       SELECT p.body FROM rota.payloads AS p WHERE p.namespace = w.namespace AND p.id = w.payload_id OFFSET 0
       ) AS p ON true
 ORDER BY n.oldest
