-- Jobs that run once and depended on others go on, or were skipped: they depend on none any more.
-- Index: primary key.
-- Locks: the rows.
DELETE FROM rota.dependencies AS d USING unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
 WHERE d.namespace = i.namespace AND d.job_id = i.job_id
