-- The jobs that an application's code declares or declared, held until the transaction ends. :namespace namespace; :app application.
-- Index: jobs_declared.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = :namespace AND j.app = :app FOR NO KEY UPDATE
