-- What went on in a namespace or one of its pools (null: all) of late, by portions of five seconds, oldest first: what
-- workers told and what was seen in samples; and how late attempts started and how long they took, by steps.
-- Index: primary keys, from `since` on: some minutes at most are kept.
-- Locks: none
WITH told AS MATERIALIZED (
    SELECT t.at, t.started, t.succeeded, t.failed, t.retried, t.run_seconds, t.lags, t.durations
      FROM rota.tallies AS t
     WHERE t.at >= :since AND t.at <= now() AND t.namespace = :namespace AND (:pool::text IS NULL OR t.pool = :pool)
), counts AS (
    SELECT at, sum(started) AS started, sum(succeeded) AS succeeded, sum(failed) AS failed, sum(retried) AS retried,
           sum(run_seconds) AS run_seconds
      FROM told GROUP BY at
), steps AS (
    SELECT at, jsonb_object_agg(key, many) FILTER (WHERE part = 'lags') AS lags,
           jsonb_object_agg(key, many) FILTER (WHERE part = 'durations') AS durations
      FROM (SELECT t.at, p.part, (u.step - 1)::text AS key, sum(u.many)::bigint AS many
              FROM told AS t
             CROSS JOIN LATERAL (SELECT 'lags' AS part, t.lags AS counts UNION ALL SELECT 'durations', t.durations) AS p
             CROSS JOIN LATERAL unnest(p.counts) WITH ORDINALITY AS u (many, step)
             WHERE u.many > 0
             GROUP BY t.at, p.part, u.step) AS summed
     GROUP BY at
), looks AS (
    SELECT s.at FROM rota.samples AS s WHERE s.at >= :since AND s.at <= now() AND s.namespace = '' AND s.pool = ''
), seen AS (
    SELECT s.* FROM rota.samples AS s
     WHERE s.at >= :since AND s.at <= now() AND s.namespace = :namespace AND s.pool = coalesce(:pool, '')
)
SELECT at, (looks.at IS NOT NULL)::integer AS looked, c.started, c.succeeded, c.failed, c.retried, c.run_seconds,
       steps.lags, steps.durations, (looks.at IS NOT NULL)::integer AS looks, seen.queued, seen.queued AS most_queued,
       seen.running, seen.slots, seen.busy, seen.dead_letters, seen.blocked
  FROM counts AS c
  FULL JOIN looks USING (at)
  LEFT JOIN steps USING (at)
  LEFT JOIN seen USING (at)
 ORDER BY at
