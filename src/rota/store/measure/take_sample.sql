-- Looks at what is there now, in each namespace and pool: runs that wait for a worker, that run, that wait at a gate, dead
-- letters, slots; of each kind at most `most` in a namespace. Pools without runs are left out. A second look within the
-- same five seconds changes nothing. Returns the time, and how many rows had runs.
-- Index: primary keys, from one namespace to the next; the whole of workers, a small table.
-- Locks: the rows it writes.
WITH RECURSIVE live_in AS (
    (SELECT namespace FROM rota.live_runs ORDER BY namespace, id LIMIT 1)
    UNION ALL
    SELECT (SELECT l.namespace FROM rota.live_runs AS l WHERE l.namespace > n.namespace
             ORDER BY l.namespace, l.id LIMIT 1)
      FROM live_in AS n WHERE n.namespace IS NOT NULL
), held_in AS (
    (SELECT namespace FROM rota.held_runs ORDER BY namespace, id LIMIT 1)
    UNION ALL
    SELECT (SELECT h.namespace FROM rota.held_runs AS h WHERE h.namespace > n.namespace
             ORDER BY h.namespace, h.id LIMIT 1)
      FROM held_in AS n WHERE n.namespace IS NOT NULL
), buried_in AS (
    (SELECT namespace FROM rota.dead_letters ORDER BY namespace, run_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.namespace FROM rota.dead_letters AS d WHERE d.namespace > n.namespace
             ORDER BY d.namespace, d.run_id LIMIT 1)
      FROM buried_in AS n WHERE n.namespace IS NOT NULL
), live AS (
    SELECT n.namespace, l.pool, count(*) FILTER (WHERE l.worker_id IS NULL) AS queued,
           count(*) FILTER (WHERE l.worker_id IS NOT NULL) AS running
      FROM live_in AS n
     CROSS JOIN LATERAL (SELECT r.pool, r.worker_id FROM rota.live_runs AS r
                          WHERE r.namespace = n.namespace AND r.ready_at <= now() ORDER BY r.id LIMIT :most) AS l
     GROUP BY n.namespace, l.pool
), held AS (
    SELECT n.namespace, h.pool, h.gate, count(*) AS runs
      FROM held_in AS n
     CROSS JOIN LATERAL (SELECT r.pool, r.gate FROM rota.held_runs AS r
                          WHERE r.namespace = n.namespace AND (r.gate NOT IN ('new', 'dependent') OR r.run_at <= now())
                          ORDER BY r.id LIMIT :most) AS h
     GROUP BY n.namespace, h.pool, h.gate
), buried AS (
    SELECT n.namespace, (SELECT count(*) FROM (SELECT FROM rota.dead_letters AS d WHERE d.namespace = n.namespace
                                                ORDER BY d.run_id LIMIT :most) AS first_ones) AS dead_letters
      FROM buried_in AS n WHERE n.namespace IS NOT NULL
), offered AS (
    SELECT served.namespace, of.pool, sum(w.slots) AS slots, sum(w.busy) AS busy
      FROM rota.workers AS w
     CROSS JOIN LATERAL unnest(w.namespaces) AS served (namespace)
     CROSS JOIN LATERAL (SELECT '' AS pool UNION ALL SELECT unnest(w.pools)) AS of
     WHERE w.gone_at IS NULL
     GROUP BY served.namespace, of.pool
), blocked AS (
    SELECT namespace, pool, jsonb_object_agg(gate, runs) AS gates
      FROM (SELECT h.namespace, of.pool, h.gate, sum(h.runs) AS runs
              FROM held AS h CROSS JOIN LATERAL (VALUES (''), (h.pool)) AS of (pool)
             GROUP BY h.namespace, of.pool, h.gate) AS by_gate
     GROUP BY namespace, pool
), waiting AS (
    SELECT l.namespace, of.pool, sum(l.queued) AS queued, sum(l.running) AS running
      FROM live AS l CROSS JOIN LATERAL (VALUES (''), (l.pool)) AS of (pool)
     GROUP BY l.namespace, of.pool
), places AS (
    SELECT namespace, pool FROM waiting
    UNION SELECT namespace, pool FROM blocked
    UNION SELECT namespace, '' FROM buried
    UNION SELECT namespace, pool FROM offered WHERE pool = ''
    UNION SELECT '', ''
), written AS (
    INSERT INTO rota.samples (at, namespace, pool, queued, running, slots, busy, dead_letters, blocked)
    SELECT date_bin('5 seconds', now(), timestamptz '2000-01-01 00:00:00Z'), p.namespace, p.pool,
           coalesce(w.queued, 0), coalesce(w.running, 0), coalesce(o.slots, 0), coalesce(o.busy, 0),
           CASE WHEN p.pool = '' THEN coalesce(d.dead_letters, 0) ELSE 0 END, b.gates
      FROM places AS p
      LEFT JOIN waiting AS w ON w.namespace = p.namespace AND w.pool = p.pool
      LEFT JOIN blocked AS b ON b.namespace = p.namespace AND b.pool = p.pool
      LEFT JOIN offered AS o ON o.namespace = p.namespace AND o.pool = p.pool
      LEFT JOIN buried AS d ON d.namespace = p.namespace
     ORDER BY p.namespace, p.pool
    ON CONFLICT (at, namespace, pool) DO NOTHING
    RETURNING queued + running AS runs, blocked
)
SELECT now() AS moment,
       (SELECT count(*) FROM waiting WHERE queued + running > 0) + (SELECT count(*) FROM blocked) AS active,
       (SELECT count(*) FROM written) AS rows
