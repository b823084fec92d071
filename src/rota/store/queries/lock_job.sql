-- A recurring job, held against other changes until the transaction ends. $1 namespace; $2 job id.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = $1 AND j.id = $2 FOR NO KEY UPDATE
