-- One-shot jobs: runs that are their own job. Parameters, order and index as in list_runs.
SELECT * FROM rota.runs
 WHERE namespace = $1 AND id >= $2 AND id < $3 AND job_id = id
   AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
   AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags)) AND ($8::text IS NULL OR task = $8)
 ORDER BY id DESC
 LIMIT $9
