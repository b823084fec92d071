-- Pools in which runs started late within the last half hour: of each window (seconds) how many started, and how many of
-- them later than the step of the scale.
-- Index: alert_minutes_latest for those of late, then the primary key for the windows.
-- Locks: none
WITH suspects AS MATERIALIZED (
    SELECT DISTINCT m.namespace, m.pool FROM rota.alert_minutes AS m
     WHERE m.at > now() - interval '31 minutes' AND m.at <= now()
       AND (SELECT sum(many) FROM unnest(m.lags[:first_late:32]) AS many) > 0
       AND (:pool::text IS NULL OR m.pool = :pool)
)
SELECT s.namespace, s.pool, w.seconds, f.started, f.late
  FROM suspects AS s CROSS JOIN unnest(:windows::float8[]) AS w (seconds)
 CROSS JOIN LATERAL (
       SELECT coalesce(sum((SELECT sum(many) FROM unnest(m.lags) AS many)), 0)::bigint AS started,
              coalesce(sum((SELECT sum(many) FROM unnest(m.lags[:first_late:32]) AS many)), 0)::bigint AS late
         FROM rota.alert_minutes AS m
        WHERE m.namespace = s.namespace AND m.pool = s.pool AND m.at > now() - make_interval(secs => w.seconds)
          AND m.at <= now()
       ) AS f
 ORDER BY s.namespace, s.pool, w.seconds
