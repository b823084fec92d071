-- Writes what jobs depend on. `once`: of a job that runs once; the sweeper looks after an hour whether it still waits.
-- Index: primary key.
-- Locks: none that another waits for: callers hold the lock of the namespace's dependencies.
INSERT INTO rota.dependencies (namespace, job_id, needs, look_at)
SELECT i.namespace, i.job_id, i.needs, CASE WHEN i.once THEN now() + interval '1 hour' END
  FROM unnest(:namespaces::text[], :job_ids::uuid[], :needs::uuid[], :once::boolean[]) AS i (namespace, job_id, needs, once)
ON CONFLICT DO NOTHING
