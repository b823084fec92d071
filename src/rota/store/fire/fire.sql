-- Fires schedules: moves each job's mark and next fire time (null: no more, the job is completed), and makes the runs,
-- in one statement. `first_runs` and `last_runs` are a job's positions in the arrays of runs; `skipped` says why a run
-- that was missed is recorded as skipped instead (null: it is made).
-- If a job was changed, paused or fired by another scheduler since it was read, it stays as it is and its runs are not
-- made: this comparison, with the mark, makes each fire time exactly one run. A run that already exists anywhere (its
-- id is a function of job and time) is not made again, even if a mark were wrong. The lease's epoch is checked through
-- the shard; a change of the job, which has locked its row, needs no lease (`scheduler_id` null). A job whose time has
-- passed by more than LATE_AFTER is noted in late_fires, for alerts.
-- Index: primary key of jobs.
-- Locks: the jobs' rows, in the order given; of late ones their rows in late_fires.
-- Idioms: OFFSET 0, one-element array, by_id.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
), input AS (
    SELECT * FROM unnest(:namespaces::text[], :job_ids::uuid[], :versions::integer[], :marks::timestamptz[],
                         :new_marks::timestamptz[],
                         :next_fires::timestamptz[], :first_runs::integer[], :last_runs::integer[])
        AS i (namespace, id, version, fired_through, new_mark, new_next, first_run, last_run)
), fired AS (
    UPDATE rota.jobs AS j
       SET fired_through = i.new_mark, next_fire_at = i.new_next, excluded_next_at = i.new_next,
           state = CASE WHEN i.new_next IS NULL THEN 'completed' ELSE j.state END
      FROM input AS i
     WHERE rota.by_id(j.namespace) = ANY (ARRAY[i.namespace]) AND j.id = ANY (ARRAY[i.id]) AND j.version = i.version
       AND j.fired_through = i.fired_through AND j.state NOT IN ('paused', 'cancelled', 'completed')
       AND (:scheduler_id::uuid IS NULL OR j.shard IN (SELECT shard FROM leased))
    RETURNING j.*, i.first_run, i.last_run
), made AS MATERIALIZED (
    SELECT j.namespace, r.id, j.id AS job_id, j.version AS job_version, j.owner, j.name, j.task, j.pool, j.priority,
           j.tags, j.payload, j.payload_id, j.options, 'schedule' AS cause, NULL::uuid AS retry_of,
           NULL::uuid AS root_id,
           j.shard, r.nominal_at, r.run_at, 0 AS attempt, 0 AS losses, now() AS created_at,
           rota.expiry_of(j.options, r.run_at) AS expires_at, NULL::text AS checkpoint, 0 AS snoozes, j.policies,
           r.skipped
      FROM fired AS j
     CROSS JOIN LATERAL unnest((:run_ids::uuid[])[j.first_run:j.last_run],
                               (:nominal_times::timestamptz[])[j.first_run:j.last_run],
                               (:start_times::timestamptz[])[j.first_run:j.last_run],
                               (:skipped::text[])[j.first_run:j.last_run])
           AS r (id, nominal_at, run_at, skipped)
     WHERE NOT EXISTS (SELECT FROM rota.runs AS e WHERE e.namespace = j.namespace AND e.id = r.id OFFSET 0)
), missed AS (
    INSERT INTO rota.finished_runs ({run}, status, finished_at, reason)
    SELECT {run}, 'skipped', now(), skipped FROM made WHERE skipped IS NOT NULL
    ON CONFLICT DO NOTHING
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'skipped' FROM made
     WHERE skipped IS NOT NULL AND (policies -> 'awaited') IS NOT NULL
), late AS (
    INSERT INTO rota.late_fires AS l (namespace, job_id, nominal_at, fired_at)
    SELECT namespace, job_id, min(nominal_at), now() FROM made WHERE nominal_at < now() - :late_after::interval
     GROUP BY namespace, job_id ORDER BY namespace, job_id
    ON CONFLICT (namespace, job_id) DO UPDATE SET nominal_at = excluded.nominal_at, fired_at = excluded.fired_at
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run}) SELECT {run} FROM made WHERE skipped IS NULL
    ON CONFLICT (namespace, id) DO NOTHING
)
SELECT namespace, shard, run_at, skipped IS NOT NULL AS skipped FROM made
