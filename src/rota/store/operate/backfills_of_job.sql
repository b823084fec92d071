-- The backfills of a job that have times between these, oldest first; not this one.
-- Index: operations_of_job.
-- Locks: none
SELECT * FROM rota.operations AS o
 WHERE o.namespace = :namespace AND o.job_id = :job_id AND o.id <> :operation AND o.first_at <= :last_at
   AND o.last_at >= :first_at
 ORDER BY o.id
