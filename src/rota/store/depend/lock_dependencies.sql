-- Lets one transaction at a time add dependencies in a namespace, until it ends: two that each add one half of a cycle
-- would not see each other. Taken after the keys of submissions and before the rows of jobs, in the order given.
-- Index: none
-- Locks: an advisory lock per namespace.
SELECT pg_advisory_xact_lock(hashtextextended('rota dependencies ' || namespace, 0))
  FROM unnest(:namespaces::text[]) AS namespace
