-- Workers that were declared lost of late, and schedulers that have been silent for some time and did not leave.
-- Index: none: small tables.
-- Locks: none
SELECT 'worker' AS kind, w.id, w.host, w.pid, w.namespaces, w.pools,
       extract(epoch FROM now() - w.gone_at)::float8 AS seconds
  FROM rota.workers AS w WHERE w.gone_at <= now() AND w.gone_why <> 'stopped'
UNION ALL
SELECT 'scheduler', s.id, s.host, s.pid, NULL, NULL, extract(epoch FROM now() - s.beat_at)::float8
  FROM rota.schedulers AS s
 ORDER BY 1, 2
