-- Whose job it is. $1 namespace; $2 job id, which is also the id of a one-shot's first run. Index: primary keys.
SELECT owner FROM rota.jobs WHERE namespace = $1 AND id = $2
UNION ALL
SELECT owner FROM rota.runs WHERE namespace = $1 AND id = $2
