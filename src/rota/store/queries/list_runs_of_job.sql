-- The runs of a job, latest first. $1 namespace; $2 job id; ids below $3; $4 limit. Index: primary key and ..._of_job.
SELECT * FROM (
    (SELECT * FROM rota.runs WHERE namespace = $1 AND id = $2 AND job_id = id AND id < $3)
    UNION ALL
    (SELECT * FROM rota.runs WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND id < $3
      ORDER BY id DESC LIMIT $4)
) AS r
 ORDER BY id DESC
 LIMIT $4
