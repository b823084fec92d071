-- What was done in a namespace of late, by portions of five seconds and pools, oldest first. $1 namespace; $2 since when.
-- What lies ahead was told before a clock was set back.
-- Index: primary key, from $2 on: some minutes at most are kept.
SELECT t.at, t.pool, sum(t.started)::bigint AS started, sum(t.succeeded)::bigint AS succeeded,
       sum(t.failed)::bigint AS failed, sum(t.retried)::bigint AS retried
  FROM rota.tallies AS t
 WHERE t.at >= $2 AND t.at <= now() AND t.namespace = $1
 GROUP BY t.at, t.pool
 ORDER BY t.at, t.pool
