-- Live processes whose wall clocks differ from the database's by more than this many seconds.
-- Index: none: small tables.
-- Locks: none
SELECT p.kind, p.id, p.host, p.pid, p.clock_skew
  FROM (SELECT 'worker' AS kind, w.id, w.host, w.pid, w.clock_skew FROM rota.workers AS w WHERE w.gone_at IS NULL
        UNION ALL
        SELECT 'scheduler', s.id, s.host, s.pid, s.clock_skew FROM rota.schedulers AS s
         WHERE s.beat_at > now() - interval '1 minute') AS p
 WHERE abs(p.clock_skew) > :seconds::float8
 ORDER BY p.kind, p.id
