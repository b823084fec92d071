-- Facts about the server and our role for `rota doctor`. Reads the catalogue and the activity, no tables.
-- Index: none
-- Locks: none
SELECT clock_timestamp() AS now,
       current_setting('server_version_num')::int AS version,
       current_setting('server_version') AS version_text,
       current_user::text AS role,
       pg_is_in_recovery() AS standby,
       coalesce((SELECT s.ssl FROM pg_stat_ssl AS s WHERE s.pid = pg_backend_pid()), false) AS tls,
       inet_server_addr() IS NULL AS local,
       current_setting('max_connections')::int AS max_connections,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       (SELECT r.rolconnlimit FROM pg_roles AS r WHERE r.rolname = current_user) AS role_limit,
       current_setting('fsync') = 'on' AS fsync,
       current_setting('full_page_writes') = 'on' AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
       pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers,
       (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float FROM pg_stat_activity AS a
         WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()) AS oldest_transaction_seconds,
       (SELECT count(*) FROM pg_replication_slots WHERE NOT active) AS idle_slots,
       EXISTS (SELECT FROM pg_namespace WHERE nspname = 'rota') AS has_schema
