-- The jobs that an application's code declares or declared, held until the transaction ends. $1 namespace; $2 application.
-- Index: jobs_declared.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = $1 AND j.app = $2 FOR NO KEY UPDATE
