-- The runs of a job, latest first. :namespace namespace; :job_id job id; ids below :before; :limit limit. Index: primary key and ..._of_job.
SELECT * FROM (
    (SELECT * FROM rota.runs WHERE namespace = :namespace AND id = :job_id AND job_id = id AND id < :before)
    UNION ALL
    (SELECT * FROM rota.runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND id < :before
      ORDER BY id DESC LIMIT :limit)
) AS r
 ORDER BY id DESC
 LIMIT :limit
