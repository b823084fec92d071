-- Makes a run of a recurring job outside its schedule, even while the job is paused: a person asked for this run.
-- Index: primary key.
-- Locks: the job's row FOR SHARE: a cancel that is under way is waited for and then seen.
WITH job AS MATERIALIZED (
    SELECT * FROM rota.jobs WHERE namespace = :namespace AND id = :job_id AND state <> 'cancelled' FOR SHARE
), made AS MATERIALIZED (
    SELECT j.namespace, :run_id::uuid AS id, j.id AS job_id, j.version AS job_version, j.owner, j.name, j.task,
           j.pool, j.priority,
           j.tags, j.payload, j.payload_id, j.options, 'manual' AS cause, NULL::uuid AS retry_of, NULL::uuid AS root_id,
           j.shard, now() AS nominal_at, now() AS run_at, 0 AS attempt, 0 AS losses, now() AS created_at,
           rota.expiry_of(j.options, now()) AS expires_at, NULL::text AS checkpoint, 0 AS snoozes, j.policies
      FROM job AS j
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
)
SELECT id, pool, options, CASE WHEN policies IS NULL THEN 'queued' ELSE 'blocked' END AS status FROM made
