-- Lets one transaction at a time create operations of a namespace: it counts those that are open.
-- Index: none
-- Locks: an advisory one, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('rota.operations/' || :namespace::text, 0))
