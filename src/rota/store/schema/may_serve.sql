-- Whether our role may do what an API server and a scheduler do: a worker's may not. Reads the catalogue alone.
-- Index: none
-- Locks: none
SELECT has_table_privilege('rota.api_keys', 'SELECT') AND has_table_privilege('rota.shard_leases', 'UPDATE')
