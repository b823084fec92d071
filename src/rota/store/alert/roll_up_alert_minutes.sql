-- Sums the tallies of each minute since the last that was summed (a little earlier: portions may come late), and removes
-- minutes that no rule looks at any more. A minute's counts only grow: tallies that are gone take nothing back, and two
-- schedulers at once write the same.
-- Index: primary keys of tallies and alert_minutes; alert_minutes_latest.
-- Locks: the minutes' rows, in order.
WITH since AS MATERIALIZED (
    SELECT greatest(date_trunc('minute', now()) - interval '13 minutes',
                    coalesce((SELECT m.at FROM rota.alert_minutes AS m WHERE m.at <= now() ORDER BY m.at DESC LIMIT 1)
                             - interval '2 minutes', '-infinity')) AS at
), old AS (
    DELETE FROM rota.alert_minutes WHERE at < now() - :kept::interval
)
INSERT INTO rota.alert_minutes AS m (namespace, pool, at, started, succeeded, failed, lags)
SELECT p.namespace, p.pool, p.minute, sum(p.started), sum(p.succeeded), sum(p.failed),
       ARRAY(SELECT coalesce(sum(l.many), 0)::bigint
               FROM generate_series(1, 32) AS n (step)
               LEFT JOIN (SELECT u.step, u.many
                            FROM rota.tallies AS t, unnest(t.lags) WITH ORDINALITY AS u (many, step)
                           WHERE t.at >= p.minute AND t.at < p.minute + interval '1 minute'
                             AND t.namespace = p.namespace AND t.pool = p.pool) AS l ON l.step = n.step
              GROUP BY n.step ORDER BY n.step)
  FROM (SELECT t.namespace, t.pool, date_trunc('minute', t.at) AS minute, t.started, t.succeeded, t.failed
          FROM rota.tallies AS t WHERE t.at >= (SELECT at FROM since) AND t.at <= now()) AS p
 GROUP BY p.namespace, p.pool, p.minute
 ORDER BY p.namespace, p.pool, p.minute
ON CONFLICT (namespace, pool, at) DO UPDATE
   SET started = excluded.started, succeeded = excluded.succeeded, failed = excluded.failed, lags = excluded.lags
 WHERE m.started + m.succeeded + m.failed < excluded.started + excluded.succeeded + excluded.failed
