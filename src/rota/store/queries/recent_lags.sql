-- How late attempts of a namespace started of late, by pools: how many in each step of the scale. $1 namespace; $2 since when.
-- Index: primary key, from $2 on: some minutes at most are kept.
SELECT t.pool, l.step, sum(l.many)::bigint AS many
  FROM rota.tallies AS t CROSS JOIN LATERAL unnest(t.lags) WITH ORDINALITY AS l (many, step)
 WHERE t.at >= $2 AND t.at <= now() AND t.namespace = $1 AND l.many > 0
 GROUP BY t.pool, l.step
 ORDER BY t.pool, l.step
