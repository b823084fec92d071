-- Binds every unclaimed run of a recurring job to its present definition. $1 namespace; $2 job id.
-- Index: ..._of_job. A run that moves at this moment is missed: callers repeat until unbound_runs is 0.
WITH job AS MATERIALIZED (
    SELECT * FROM rota.jobs WHERE namespace = $1 AND id = $2
), in_upcoming AS (
    UPDATE rota.upcoming_runs AS r
       SET job_version = j.version, owner = j.owner, name = j.name, task = j.task, pool = j.pool,
           priority = j.priority, tags = j.tags, payload = j.payload, payload_id = j.payload_id, options = j.options,
           expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at)
      FROM job AS j
     WHERE r.namespace = $1 AND r.job_id = $2 AND r.job_id <> r.id AND r.job_version < j.version
), in_held AS (
    UPDATE rota.held_runs AS r
       SET job_version = j.version, owner = j.owner, name = j.name, task = j.task, pool = j.pool,
           priority = j.priority, tags = j.tags, payload = j.payload, payload_id = j.payload_id, options = j.options,
           expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at)
      FROM job AS j
     WHERE r.namespace = $1 AND r.job_id = $2 AND r.job_id <> r.id AND r.job_version < j.version
)
UPDATE rota.live_runs AS r
   SET lane = rota.lane_of(j.namespace, j.pool, j.task, j.priority), job_version = j.version, owner = j.owner, name = j.name, task = j.task, pool = j.pool,
       priority = j.priority, tags = j.tags, payload = j.payload, payload_id = j.payload_id, options = j.options,
           expires_at = rota.changed_expiry(r.expires_at, r.options, r.attempt, r.snoozes, j.options, r.run_at)
  FROM job AS j
 WHERE r.namespace = $1 AND r.job_id = $2 AND r.job_id <> r.id AND r.job_version < j.version AND r.worker_id IS NULL
