-- Adds blocks of logs to the index.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.log_blocks (namespace, last_run, blob, first, length, first_run, owner, members, filter)
SELECT * FROM unnest(:namespaces::text[], :last_runs::uuid[], :blobs::text[], :firsts::bigint[], :lengths::integer[],
                     :first_runs::uuid[], :owners::text[], :members::bytea[], :filters::bytea[])
ON CONFLICT (namespace, last_run, blob, first) DO NOTHING
