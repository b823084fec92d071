-- Whether logs in object storage are not in the index yet.
-- Index: primary key of unindexed_logs, for one namespace.
-- Locks: none
SELECT EXISTS (SELECT FROM rota.log_walk WHERE NOT ended)
       OR EXISTS (SELECT FROM rota.unindexed_logs WHERE namespace = :namespace)
