-- A recurring job, held against other changes until the transaction ends. :namespace namespace; :job_id job id.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = :namespace AND j.id = :job_id FOR NO KEY UPDATE
