-- The retention policy of a namespace, and the moment.
-- Index: primary key.
-- Locks: none
SELECT policy::text AS policy, changed_by, changed_at FROM rota.retention WHERE namespace = :namespace
