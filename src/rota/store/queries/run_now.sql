-- Makes a run of a recurring job besides its schedule, also while it is paused: somebody asked for this very run.
-- $1 namespace; $2 job id; $3 the new run's id. Index: primary key. Locks the job's row FOR SHARE: a cancel that is under
-- way is waited for and then seen.
WITH job AS MATERIALIZED (
    SELECT * FROM rota.jobs WHERE namespace = $1 AND id = $2 AND state <> 'cancelled' FOR SHARE
)
INSERT INTO rota.live_runs ({run}, lane, ready_at)
SELECT j.namespace, $3, j.id, j.version, j.owner, j.name, j.task, j.pool, j.priority, j.tags, j.payload, j.payload_id,
       j.options, 'manual', NULL, NULL, j.shard, now(), now(), 0, 0, now(),
       rota.expiry_of(j.options, now()), NULL, 0, rota.lane_of(j.namespace, j.pool, j.task, j.priority), now()
  FROM job AS j
RETURNING pool
