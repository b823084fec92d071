-- Schedules that are overdue by more than a grace, at most `most_named` of each namespace: not fired although their time
-- has come; fired, and their run still waits for a scheduler, a gate or a worker; or fired too late, within the window.
-- Waiting for other jobs, for an earlier run or while paused is what the job's owner wants. Filters: null for any.
-- Index: jobs_due, upcoming_runs_due and held_runs_gate, a range of each shard; live_runs_ready, a range of each lane;
-- late_fires_latest; the primary key of jobs.
-- Locks: none
-- Idioms: OFFSET 0.
WITH RECURSIVE shards AS MATERIALIZED (
    SELECT generate_series(0, c.shards - 1)::smallint AS shard FROM rota.constants AS c
), lanes AS (
    (SELECT l.lane FROM rota.live_runs AS l WHERE l.worker_id IS NULL AND l.lane >= (-9223372036854775808)::bigint
      ORDER BY l.lane, l.ready_at LIMIT 1)
    UNION ALL
    SELECT f.lane FROM lanes AS h
     CROSS JOIN LATERAL (SELECT l.lane FROM rota.live_runs AS l WHERE l.worker_id IS NULL AND l.lane > h.lane
                          ORDER BY l.lane, l.ready_at LIMIT 1) AS f
), late AS MATERIALIZED (
    (SELECT f.namespace, f.id AS job_id, f.next_fire_at AS nominal_at, now() AS until, 'unfired' AS how
       FROM shards AS s
      CROSS JOIN LATERAL (
            SELECT j.namespace, j.id, j.next_fire_at FROM rota.jobs AS j
             WHERE j.shard = s.shard AND j.state = 'scheduled' AND j.next_fire_at < now() - :grace::interval
             ORDER BY j.next_fire_at LIMIT :most) AS f)
    UNION ALL
    (SELECT f.namespace, f.job_id, f.run_at, now(), 'waiting'
       FROM shards AS s
      CROSS JOIN LATERAL (
            SELECT u.namespace, u.job_id, u.run_at, u.cause, u.attempt, u.snoozes FROM rota.upcoming_runs AS u
             WHERE u.shard = s.shard AND u.run_at < now() - :grace::interval
             ORDER BY u.run_at LIMIT :most) AS f
      WHERE f.cause = 'schedule' AND f.attempt = 0 AND f.snoozes = 0)
    UNION ALL
    (SELECT f.namespace, f.job_id, f.run_at, now(), 'waiting'
       FROM shards AS s
      CROSS JOIN unnest(ARRAY['new', 'limit', 'rate', 'breaker']) AS g (gate)
      CROSS JOIN LATERAL (
            SELECT h.namespace, h.job_id, h.run_at, h.cause, h.attempt, h.snoozes FROM rota.held_runs AS h
             WHERE h.gate = g.gate AND h.shard = s.shard AND h.run_at < now() - :grace::interval
             ORDER BY h.run_at LIMIT :most) AS f
      WHERE f.cause = 'schedule' AND f.attempt = 0 AND f.snoozes = 0)
    UNION ALL
    (SELECT f.namespace, f.job_id, f.run_at, now(), 'waiting'
       FROM lanes
      CROSS JOIN LATERAL (
            SELECT l.namespace, l.job_id, l.run_at, l.cause, l.attempt, l.snoozes FROM rota.live_runs AS l
             WHERE l.worker_id IS NULL AND l.lane = lanes.lane AND l.ready_at < now() - :grace::interval
             ORDER BY l.ready_at LIMIT :most) AS f
      WHERE f.cause = 'schedule' AND f.attempt = 0 AND f.snoozes = 0)
    UNION ALL
    (SELECT f.namespace, f.job_id, f.nominal_at, f.fired_at, 'late'
       FROM rota.late_fires AS f
      WHERE f.fired_at > now() - :window::interval AND f.fired_at <= now()
        AND f.fired_at - f.nominal_at > :grace::interval
      ORDER BY f.fired_at DESC LIMIT :most)
), first_ones AS (
    SELECT DISTINCT ON (l.namespace, l.job_id) l.namespace, l.job_id, l.nominal_at, l.until, l.how
      FROM late AS l ORDER BY l.namespace, l.job_id, l.until DESC, l.nominal_at
), named AS (
    SELECT f.*, j.name, j.owner, j.options,
           row_number() OVER (PARTITION BY f.namespace ORDER BY f.nominal_at, f.job_id) AS place
      FROM first_ones AS f
     CROSS JOIN LATERAL (
           SELECT j.name, j.owner, j.options FROM rota.jobs AS j
            WHERE j.namespace = f.namespace AND j.id = f.job_id AND j.state IN ('scheduled', 'completed')
              AND (:pool::text IS NULL OR j.pool = :pool) AND (:task::text IS NULL OR j.task = :task)
              AND (:job_id::uuid IS NULL OR j.id = :job_id)
           OFFSET 0) AS j
)
SELECT namespace, job_id, name, owner, options, how, nominal_at, place > :most_named AS is_more,
       extract(epoch FROM until - nominal_at)::float8 AS seconds
  FROM named WHERE place <= :most_named + 1
 ORDER BY namespace, place
