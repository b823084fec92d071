-- How late attempts of a namespace started of late, by pool: how many in each step of the scale.
-- Index: primary key, from `since` on: some minutes at most are kept.
-- Locks: none
SELECT t.pool, l.step, sum(l.many)::bigint AS many
  FROM rota.tallies AS t CROSS JOIN LATERAL unnest(t.lags) WITH ORDINALITY AS l (many, step)
 WHERE t.at >= :since AND t.at <= now() AND t.namespace = :namespace AND l.many > 0
 GROUP BY t.pool, l.step
 ORDER BY t.pool, l.step
