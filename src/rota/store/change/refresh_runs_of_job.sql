-- Binds every unclaimed run of a recurring job to its present definition. One that waits at a gate, or that was ready
-- under other policies, is looked at anew by admission. A run that moves at this moment is missed: callers repeat until
-- unbound_runs is 0.
-- Index: upcoming_runs_of_job, live_runs_of_job, held_runs_of_job.
-- Locks: the runs.
WITH job AS MATERIALIZED (
    SELECT * FROM rota.jobs WHERE namespace = :namespace AND id = :job_id
), in_upcoming AS (
    UPDATE rota.upcoming_runs AS r
       SET job_version = j.version, owner = j.owner, name = j.name, task = j.task, pool = j.pool,
           priority = j.priority, tags = j.tags, payload = j.payload, payload_id = j.payload_id, options = j.options,
           expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at),
           policies = j.policies
      FROM job AS j
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
), leaving AS (
    SELECT r.namespace, r.id, r.job_id, r.policies
      FROM job AS j, rota.upcoming_runs AS r
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
       AND (r.attempt > 0 OR r.snoozes > 0)
       AND r.policies IS DISTINCT FROM j.policies
    UNION ALL
    SELECT r.namespace, r.id, r.job_id, r.policies
      FROM job AS j, rota.held_runs AS r
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
       AND r.policies IS DISTINCT FROM j.policies
    UNION ALL
    SELECT r.namespace, r.id, r.job_id, r.policies
      FROM job AS j, rota.live_runs AS r
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
       AND r.worker_id IS NULL
       AND r.policies IS DISTINCT FROM j.policies
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, policies FROM leaving WHERE policies IS NOT NULL
), in_held AS (
    UPDATE rota.held_runs AS r
       SET job_version = j.version, owner = j.owner, name = j.name, task = j.task, pool = j.pool,
           priority = j.priority, tags = j.tags, payload = j.payload, payload_id = j.payload_id, options = j.options,
           expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at),
           policies = j.policies, gate = CASE WHEN r.gate IN ('pause', 'recall') THEN r.gate ELSE 'new' END,
           gate_key = NULL
      FROM job AS j
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
), regated AS (
    DELETE FROM rota.live_runs AS r USING job AS j
     WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
       AND r.worker_id IS NULL
       AND j.policies IS NOT NULL AND r.policies IS DISTINCT FROM j.policies
    RETURNING r.namespace, r.id, r.job_id, j.version AS job_version, j.owner, j.name, j.task, j.pool, j.priority,
              j.tags,
              j.payload, j.payload_id, j.options, r.cause, r.retry_of, r.root_id, r.shard, r.nominal_at, r.run_at,
              r.attempt, r.losses, r.created_at,
              rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at) AS expires_at,
              r.checkpoint, r.snoozes, j.policies
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM regated
)
UPDATE rota.live_runs AS r
   SET lane = rota.lane_of(j.namespace, j.pool, j.task, j.priority), job_version = j.version, owner = j.owner,
       name = j.name, task = j.task, pool = j.pool, priority = j.priority, tags = j.tags, payload = j.payload,
       payload_id = j.payload_id, options = j.options,
       expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at),
       policies = j.policies
  FROM job AS j
 WHERE r.namespace = :namespace AND r.job_id = :job_id AND r.job_id <> r.id AND r.job_version < j.version
   AND r.worker_id IS NULL
   AND (j.policies IS NULL OR r.policies IS NOT DISTINCT FROM j.policies)
