-- How many runs of each pool succeeded and failed for good within a window, where that is less than the share of success.
-- Index: alert_minutes_latest.
-- Locks: none
SELECT m.namespace, m.pool, sum(m.succeeded)::bigint AS succeeded, sum(m.failed)::bigint AS failed
  FROM rota.alert_minutes AS m
 WHERE m.at > now() - :window::interval AND m.at <= now() AND (:pool::text IS NULL OR m.pool = :pool)
 GROUP BY m.namespace, m.pool
HAVING sum(m.succeeded) + sum(m.failed) >= :minimum
   AND sum(m.succeeded) < :share::float8 * (sum(m.succeeded) + sum(m.failed))
 ORDER BY m.namespace, m.pool
