-- Makes new runs of runs that have ended, for a replay or a redrive that is locked, and moves its position. A redrive takes the dead letters with it, keeps idempotency keys and checkpoints, and needs the dead
-- letter; a replay has new keys, and its runs stand for the same times. Nodes of workflows are left out: they run again
-- when their workflow run is resumed. Ids are from `first` to `last`.
-- Index: primary keys, one day of history each.
-- Locks: the dead letters.
-- Plan: custom
-- Idioms: OFFSET 0, one-element array, by_id.
WITH operation AS MATERIALIZED (
    SELECT o.namespace, o.id, o.kind FROM rota.operations AS o
     WHERE o.namespace = :namespace AND o.id = :operation
), input AS MATERIALIZED (
    SELECT o.namespace, o.id AS operation, o.kind, i.old_id, i.new_id
      FROM operation AS o CROSS JOIN unnest(:run_ids::uuid[], :new_ids::uuid[]) AS i (old_id, new_id)
), old AS MATERIALIZED (
    SELECT i.operation, i.kind, i.new_id, r.*
      FROM input AS i
     CROSS JOIN LATERAL (
           SELECT * FROM rota.finished_runs AS f
            WHERE f.namespace = i.namespace AND f.id = i.old_id AND f.id >= :first AND f.id <= :last
              AND f.cause NOT IN ('node', 'member') AND (f.task <> 'workflow' OR (f.policies -> 'opens') IS NOT NULL)
           OFFSET 0
           ) AS r
), raised AS (
    DELETE FROM rota.dead_letters AS d USING old AS i
     WHERE rota.by_id(d.namespace) = ANY (ARRAY[i.namespace]) AND d.run_id = ANY (ARRAY[i.id]) AND i.kind = 'redrive'
    RETURNING d.run_id
), made AS MATERIALIZED (
    SELECT r.namespace, r.new_id AS id, r.job_id, r.job_version, r.owner, r.name, r.task, r.pool, r.priority, r.tags,
           r.payload, r.payload_id, r.options, r.kind AS cause, r.id AS retry_of,
           CASE WHEN r.kind = 'redrive' THEN coalesce(r.root_id, r.id) END AS root_id, r.shard,
           CASE WHEN r.kind = 'redrive' THEN now() ELSE r.nominal_at END AS nominal_at, now() AS run_at, 0 AS attempt,
           0 AS losses, now() AS created_at, rota.expiry_of(r.options, now()) AS expires_at,
           CASE WHEN r.kind = 'redrive' THEN r.checkpoint END AS checkpoint, 0 AS snoozes, r.policies, r.operation
      FROM old AS r
     WHERE r.kind <> 'redrive' OR r.id IN (SELECT run_id FROM raised)
), recorded AS (
    INSERT INTO rota.operation_runs (namespace, run_id, operation, nominal_at)
    SELECT namespace, id, operation, nominal_at FROM made
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
), moved AS (
    UPDATE rota.operations AS o
       SET position_id = :position, made = o.made + (SELECT count(*) FROM made)::integer,
           left_out = o.left_out + :left_out + cardinality(:run_ids::uuid[]) - (SELECT count(*) FROM made)::integer,
           is_made = :is_made, paced_to = :paced_to, revision = o.revision + 1, served_at = clock_timestamp()
      FROM operation AS p WHERE o.namespace = p.namespace AND o.id = p.id
)
SELECT m.pool, m.policies IS NOT NULL AS gated FROM made AS m
