-- Whether this database role can make jobs that depend on others: roles of workers can't change what those are.
-- Index: none
-- Locks: none
SELECT has_table_privilege('rota.dependencies', 'INSERT') AND has_table_privilege('rota.jobs', 'UPDATE')
