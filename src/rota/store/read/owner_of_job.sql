-- Whose job it is. :namespace namespace; :job_id job id, which is also the id of a one-shot's first run. Index: primary keys.
SELECT owner FROM rota.jobs WHERE namespace = :namespace AND id = :job_id
UNION ALL
SELECT owner FROM rota.runs WHERE namespace = :namespace AND id = :job_id
