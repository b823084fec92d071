-- Makes runs of a backfill that is locked, and moves its position. Runs are live, or held
-- if they have policies. If the job was cancelled, or its workflow deleted, the backfill is aborted instead. `left_ids`
-- and `left_times`: times that are left out because their runs have not ended.
-- Index: primary keys, workflows_of_job.
-- Locks: the job FOR SHARE: a cancel that is under way is waited for and then seen.
WITH operation AS MATERIALIZED (
    SELECT o.namespace, o.id FROM rota.operations AS o
     WHERE o.namespace = :namespace AND o.id = :operation
), job AS MATERIALIZED (
    SELECT j.*, :operation::uuid AS operation
      FROM rota.jobs AS j
     WHERE j.namespace = :namespace AND j.id = :job_id AND j.state <> 'cancelled' AND EXISTS (SELECT FROM operation)
       AND ((j.policies -> 'opens') IS NULL
            OR EXISTS (SELECT FROM rota.workflows AS w
                        WHERE w.namespace = j.namespace AND w.job_id = j.id AND w.state <> 'deleted'))
       FOR SHARE
), made AS MATERIALIZED (
    SELECT j.namespace, i.id, j.id AS job_id, j.version AS job_version, j.owner, j.name, j.task, j.pool, j.priority,
           j.tags, j.payload, j.payload_id, j.options, 'backfill' AS cause, NULL::uuid AS retry_of,
           NULL::uuid AS root_id, j.shard, i.nominal_at, now() AS run_at, 0 AS attempt, 0 AS losses, now() AS created_at,
           rota.expiry_of(j.options, now()) AS expires_at, NULL::text AS checkpoint, 0 AS snoozes, j.policies, j.operation
      FROM job AS j
     CROSS JOIN unnest(:run_ids::uuid[], :nominal_times::timestamptz[]) AS i (id, nominal_at)
), recorded AS (
    INSERT INTO rota.operation_runs (namespace, run_id, operation, nominal_at, outcome, is_counted)
    SELECT namespace, id, operation, nominal_at, NULL, false FROM made
    UNION ALL
    SELECT j.namespace, i.id, j.operation, i.nominal_at, 'left', true
      FROM job AS j CROSS JOIN unnest(:left_ids::uuid[], :left_times::timestamptz[]) AS i (id, nominal_at)
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
), moved AS (
    UPDATE rota.operations AS o
       SET position_at = :position, made = o.made + cardinality(:run_ids::uuid[]), left_out = o.left_out + :left_out,
           is_made = :is_made, paced_to = :paced_to, revision = o.revision + 1, served_at = clock_timestamp()
      FROM job AS j WHERE o.namespace = j.namespace AND o.id = j.operation
    RETURNING o.id
), aborted AS (
    UPDATE rota.operations AS o
       SET state = 'aborting', reason = 'its job was cancelled or its workflow deleted', revision = o.revision + 1, changed_at = now()
      FROM operation AS p WHERE o.namespace = p.namespace AND o.id = p.id AND NOT EXISTS (SELECT FROM job)
)
SELECT j.pool, j.policies IS NOT NULL AS gated FROM job AS j
