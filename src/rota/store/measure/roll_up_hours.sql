-- Writes the figures of each hour that is over, from its minutes: hours of the last `kept` of which a minute was written
-- and the hour not. Of tasks the `most_tasks` busiest of a namespace. All of an hour is written by one statement, and a
-- second one that does it at the same time writes nothing. Returns the hours.
-- Index: the primary key of figures, figures_in_time.
-- Locks: the rows it writes.
WITH due AS MATERIALIZED (
    SELECT hour.at
      FROM generate_series(date_bin('1 hour', now() - :kept::interval, timestamptz '2000-01-01 00:00:00Z')
                               + interval '1 hour',
                           date_bin('1 hour', now() - :grace::interval, timestamptz '2000-01-01 00:00:00Z')
                               - interval '1 hour', interval '1 hour') AS hour (at)
     WHERE NOT EXISTS (SELECT FROM rota.figures AS f
                        WHERE f.namespace = '' AND f.kind = 'namespace' AND f.name = '' AND f.step = 3600
                          AND f.at = hour.at)
       AND EXISTS (SELECT FROM rota.figures AS f
                    WHERE f.namespace = '' AND f.kind = 'namespace' AND f.name = '' AND f.step = 60
                      AND f.at >= hour.at AND f.at < hour.at + interval '1 hour')
), minutes AS MATERIALIZED (
    SELECT d.at AS hour, f.*
      FROM due AS d JOIN rota.figures AS f ON f.step = 60 AND f.at >= d.at AND f.at < d.at + interval '1 hour'
), looks AS (
    SELECT hour, sum(looks) AS looks FROM minutes WHERE namespace = '' GROUP BY hour
), totals AS (
    SELECT m.hour, m.namespace, m.kind, m.name, sum(m.started) AS started, sum(m.succeeded) AS succeeded,
           sum(m.failed) AS failed, sum(m.retried) AS retried, sum(m.run_seconds) AS run_seconds,
           sum(m.queued) AS queued, max(m.most_queued) AS most_queued, sum(m.running) AS running, sum(m.slots) AS slots,
           sum(m.busy) AS busy, sum(m.dead_letters) AS dead_letters,
           row_number() OVER (PARTITION BY m.hour, m.namespace, m.kind ORDER BY sum(m.started) DESC, m.name) AS place
      FROM minutes AS m
     GROUP BY m.hour, m.namespace, m.kind, m.name
), parts AS (
    SELECT hour, namespace, kind, name, jsonb_object_agg(key, many) FILTER (WHERE part = 'lags') AS lags,
           jsonb_object_agg(key, many) FILTER (WHERE part = 'durations') AS durations,
           jsonb_object_agg(key, many) FILTER (WHERE part = 'blocked') AS blocked
      FROM (SELECT m.hour, m.namespace, m.kind, m.name, p.part, e.key, sum(e.value::bigint)::bigint AS many
              FROM minutes AS m
             CROSS JOIN LATERAL (VALUES ('lags', m.lags), ('durations', m.durations), ('blocked', m.blocked))
                        AS p (part, counts)
             CROSS JOIN LATERAL jsonb_each_text(p.counts) AS e
             GROUP BY m.hour, m.namespace, m.kind, m.name, p.part, e.key) AS summed
     GROUP BY hour, namespace, kind, name
), written AS (
    INSERT INTO rota.figures (namespace, kind, name, step, at, started, succeeded, failed, retried, run_seconds, lags,
                              durations, looks, queued, most_queued, running, slots, busy, dead_letters, blocked)
    SELECT t.namespace, t.kind, t.name, 3600, t.hour, t.started, t.succeeded, t.failed, t.retried, t.run_seconds,
           p.lags, p.durations, l.looks, t.queued, t.most_queued, t.running, t.slots, t.busy, t.dead_letters, p.blocked
      FROM totals AS t
      JOIN looks AS l ON l.hour = t.hour
      LEFT JOIN parts AS p ON p.hour = t.hour AND p.namespace = t.namespace AND p.kind = t.kind AND p.name = t.name
     WHERE t.kind <> 'task' OR t.place <= :most_tasks
     ORDER BY t.hour, t.namespace, t.kind, t.name
    ON CONFLICT (namespace, kind, name, step, at) DO NOTHING
    RETURNING namespace, at
)
SELECT at FROM written WHERE namespace = '' ORDER BY at
