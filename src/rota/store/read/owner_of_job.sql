-- Whose job it is; the id of a one-shot job is that of its first run.
-- Index: primary keys.
-- Locks: none
SELECT owner FROM rota.jobs WHERE namespace = :namespace AND id = :job_id
UNION ALL
SELECT owner FROM rota.runs WHERE namespace = :namespace AND id = :job_id
