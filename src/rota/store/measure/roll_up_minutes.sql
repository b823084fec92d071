-- Writes the figures of each minute that is over, from tallies and samples: those of the last `kept` that were not written
-- yet. A minute before the server's start is written only if something of it is there: after a crash these tables are
-- empty. Of tasks the `most_tasks` busiest of a namespace. All of a minute is written by one statement, and a second one
-- that does it at the same time writes nothing. Returns the minutes.
-- Index: the primary keys of figures, tallies, task_tallies and samples, by time.
-- Locks: the rows it writes.
WITH due AS MATERIALIZED (
    SELECT minute.at
      FROM generate_series(date_bin('1 minute', now() - :kept::interval, timestamptz '2000-01-01 00:00:00Z')
                               + interval '1 minute',
                           date_bin('1 minute', now() - :grace::interval, timestamptz '2000-01-01 00:00:00Z')
                               - interval '1 minute', interval '1 minute') AS minute (at)
     WHERE NOT EXISTS (SELECT FROM rota.figures AS f
                        WHERE f.namespace = '' AND f.kind = 'namespace' AND f.name = '' AND f.step = 60
                          AND f.at = minute.at)
       AND (minute.at >= pg_postmaster_start_time()
            OR EXISTS (SELECT FROM rota.tallies AS t
                        WHERE t.at >= minute.at AND t.at < minute.at + interval '1 minute')
            OR EXISTS (SELECT FROM rota.samples AS s
                        WHERE s.at >= minute.at AND s.at < minute.at + interval '1 minute'))
), counted AS MATERIALIZED (
    SELECT d.at, t.namespace, of.kind, of.name, t.started, t.succeeded, t.failed, t.retried, t.run_seconds, t.lags,
           t.durations
      FROM due AS d
      JOIN rota.tallies AS t ON t.at >= d.at AND t.at < d.at + interval '1 minute'
     CROSS JOIN LATERAL (VALUES ('namespace', ''), ('pool', t.pool)) AS of (kind, name)
    UNION ALL
    SELECT d.at, t.namespace, 'task', t.task, t.started, t.succeeded, t.failed, t.retried, t.run_seconds, t.lags,
           t.durations
      FROM due AS d JOIN rota.task_tallies AS t ON t.at = d.at
), totals AS (
    SELECT c.at, c.namespace, c.kind, c.name, sum(c.started) AS started, sum(c.succeeded) AS succeeded,
           sum(c.failed) AS failed, sum(c.retried) AS retried, sum(c.run_seconds) AS run_seconds,
           row_number() OVER (PARTITION BY c.at, c.namespace, c.kind ORDER BY sum(c.started) DESC, c.name) AS place
      FROM counted AS c
     GROUP BY c.at, c.namespace, c.kind, c.name
), seen AS MATERIALIZED (
    SELECT d.at, s.namespace, CASE WHEN s.pool = '' THEN 'namespace' ELSE 'pool' END AS kind, s.pool AS name, s.queued,
           s.running, s.slots, s.busy, s.dead_letters, s.blocked
      FROM due AS d JOIN rota.samples AS s ON s.at >= d.at AND s.at < d.at + interval '1 minute'
), gauges AS (
    SELECT s.at, s.namespace, s.kind, s.name, sum(s.queued) AS queued, max(s.queued) AS most_queued,
           sum(s.running) AS running, sum(s.slots) AS slots, sum(s.busy) AS busy, sum(s.dead_letters) AS dead_letters
      FROM seen AS s
     GROUP BY s.at, s.namespace, s.kind, s.name
), looks AS (
    SELECT s.at, count(*) AS looks FROM seen AS s WHERE s.namespace = '' GROUP BY s.at
), parts AS (
    SELECT at, namespace, kind, name, jsonb_object_agg(key, many) FILTER (WHERE part = 'lags') AS lags,
           jsonb_object_agg(key, many) FILTER (WHERE part = 'durations') AS durations,
           jsonb_object_agg(key, many) FILTER (WHERE part = 'blocked') AS blocked
      FROM (SELECT p.at, p.namespace, p.kind, p.name, p.part, p.key, sum(p.many)::bigint AS many
              FROM (SELECT c.at, c.namespace, c.kind, c.name, 'lags' AS part, (u.step - 1)::text AS key, u.many
                      FROM counted AS c CROSS JOIN LATERAL unnest(c.lags) WITH ORDINALITY AS u (many, step)
                     WHERE u.many > 0
                    UNION ALL
                    SELECT c.at, c.namespace, c.kind, c.name, 'durations', (u.step - 1)::text, u.many
                      FROM counted AS c CROSS JOIN LATERAL unnest(c.durations) WITH ORDINALITY AS u (many, step)
                     WHERE u.many > 0
                    UNION ALL
                    SELECT s.at, s.namespace, s.kind, s.name, 'blocked', e.key, e.value::bigint
                      FROM seen AS s CROSS JOIN LATERAL jsonb_each_text(s.blocked) AS e) AS p
             GROUP BY p.at, p.namespace, p.kind, p.name, p.part, p.key) AS summed
     GROUP BY at, namespace, kind, name
), subjects AS (
    SELECT at, namespace, kind, name FROM totals WHERE kind <> 'task' OR place <= :most_tasks
    UNION SELECT at, namespace, kind, name FROM gauges
    UNION SELECT at, '', 'namespace', '' FROM due
), written AS (
    INSERT INTO rota.figures (namespace, kind, name, step, at, started, succeeded, failed, retried, run_seconds, lags,
                              durations, looks, queued, most_queued, running, slots, busy, dead_letters, blocked)
    SELECT s.namespace, s.kind, s.name, 60, s.at, coalesce(t.started, 0), coalesce(t.succeeded, 0),
           coalesce(t.failed, 0), coalesce(t.retried, 0), coalesce(t.run_seconds, 0), p.lags, p.durations,
           coalesce(l.looks, 0), coalesce(g.queued, 0), coalesce(g.most_queued, 0), coalesce(g.running, 0),
           coalesce(g.slots, 0), coalesce(g.busy, 0), coalesce(g.dead_letters, 0), p.blocked
      FROM subjects AS s
      LEFT JOIN totals AS t ON t.at = s.at AND t.namespace = s.namespace AND t.kind = s.kind AND t.name = s.name
      LEFT JOIN gauges AS g ON g.at = s.at AND g.namespace = s.namespace AND g.kind = s.kind AND g.name = s.name
      LEFT JOIN parts AS p ON p.at = s.at AND p.namespace = s.namespace AND p.kind = s.kind AND p.name = s.name
      LEFT JOIN looks AS l ON l.at = s.at
     ORDER BY s.at, s.namespace, s.kind, s.name
    ON CONFLICT (namespace, kind, name, step, at) DO NOTHING
    RETURNING namespace, at
)
SELECT at FROM written WHERE namespace = '' ORDER BY at
