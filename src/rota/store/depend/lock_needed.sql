-- Schedules that others are about to depend on, and those themselves, held against changes until the transaction ends. A
-- cancel is before us, and seen here, or after us, and sees the dependency.
-- Index: primary key.
-- Locks: the jobs' rows FOR NO KEY UPDATE, in the order of ids, as firing takes them.
-- Idioms: by_id.
SELECT j.namespace, j.id, j.state, j.options FROM rota.jobs AS j
 WHERE rota.by_id(j.namespace) = ANY (:namespaces::text[]) AND j.id = ANY (:job_ids::uuid[])
 ORDER BY j.id
   FOR NO KEY UPDATE
