-- What was done in a namespace of late, by portions of five seconds and pools, oldest first. What lies ahead was told
-- before a clock was set back.
-- Index: primary key, from `since` on: some minutes at most are kept.
-- Locks: none
SELECT t.at, t.pool, sum(t.started)::bigint AS started, sum(t.succeeded)::bigint AS succeeded,
       sum(t.failed)::bigint AS failed, sum(t.retried)::bigint AS retried
  FROM rota.tallies AS t
 WHERE t.at >= :since AND t.at <= now() AND t.namespace = :namespace
 GROUP BY t.at, t.pool
 ORDER BY t.at, t.pool
