-- Makes a run of a recurring job besides its schedule. $1 namespace; $2 job id; $3 the new run's id. Index: primary key.
INSERT INTO rota.live_runs ({run}, ready_at)
SELECT j.namespace, $3, j.id, j.version, j.owner, j.name, j.task, j.pool, j.priority, j.tags, j.payload, j.payload_id,
       j.options, 'manual', NULL, NULL, j.shard, now(), now(), 0, 0, now(), now()
  FROM rota.jobs AS j
 WHERE j.namespace = $1 AND j.id = $2 AND j.state <> 'cancelled'
RETURNING pool
