-- Counts runs that have ended, of operations of these shards. Rows of those that succeeded go; the others stay, as counted.
-- Gives the operations that changed.
-- Index: operations_open, operation_runs_ended, primary keys.
-- Locks: the runs' rows that no other scheduler counts (SKIP LOCKED), then the operations.
-- Idioms: ctid.
WITH found AS MATERIALIZED (
    SELECT r.ctid AS place, r.namespace, r.operation, r.outcome
      FROM rota.operations AS o
     CROSS JOIN LATERAL (
           SELECT r.ctid, r.namespace, r.operation, r.outcome FROM rota.operation_runs AS r
            WHERE r.operation = o.id AND r.outcome IS NOT NULL AND NOT r.is_counted
            LIMIT :limit
              FOR UPDATE SKIP LOCKED
           ) AS r
     WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL
), gone AS (
    DELETE FROM rota.operation_runs AS r
     WHERE r.ctid = ANY (ARRAY(SELECT place FROM found WHERE outcome = 'success'))
), kept AS (
    UPDATE rota.operation_runs AS r SET is_counted = true
     WHERE r.ctid = ANY (ARRAY(SELECT place FROM found WHERE outcome <> 'success'))
), counted AS MATERIALIZED (
    SELECT namespace, operation, count(*) AS ended, count(*) FILTER (WHERE outcome = 'cancelled') AS cancelled,
           count(*) FILTER (WHERE outcome IN ('failed', 'skipped')) AS failed
      FROM found GROUP BY namespace, operation ORDER BY operation
)
UPDATE rota.operations AS o
   SET ended = o.ended + c.ended, failed = o.failed + c.failed, cancelled = o.cancelled + c.cancelled
  FROM counted AS c
 WHERE o.namespace = c.namespace AND o.id = c.operation
RETURNING o.*
