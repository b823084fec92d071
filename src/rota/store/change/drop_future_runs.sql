-- Drops the unclaimed future runs of a schedule that was changed or paused; it will make the right ones later. Keeps
-- runs that are due but start later because of jitter, and runs that were started before. Returns how many the snapshot
-- showed (callers repeat until 0, because a run that was moving was not dropped) and the earliest nominal time among
-- those dropped.
-- Index: upcoming_runs_of_job, live_runs_of_job, held_runs_of_job.
-- Locks: the runs.
WITH seen AS (
    SELECT (SELECT count(*) FROM rota.upcoming_runs
             WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
               AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
               AND checkpoint IS NULL AND nominal_at > clock_timestamp())
         + (SELECT count(*) FROM rota.live_runs
             WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND worker_id IS NULL
               AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
               AND checkpoint IS NULL AND nominal_at > clock_timestamp())
         + (SELECT count(*) FROM rota.held_runs
             WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND gate IN ('new', 'dependent')
               AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
               AND checkpoint IS NULL AND nominal_at > clock_timestamp()) AS runs
), from_upcoming AS (
    DELETE FROM rota.upcoming_runs
     WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
       AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
       AND checkpoint IS NULL AND nominal_at > clock_timestamp()
    RETURNING nominal_at
), from_live AS (
    DELETE FROM rota.live_runs
     WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND worker_id IS NULL
       AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
       AND checkpoint IS NULL AND nominal_at > clock_timestamp()
    RETURNING nominal_at
), from_held AS (
    DELETE FROM rota.held_runs
     WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND gate IN ('new', 'dependent')
       AND cause = 'schedule' AND attempt = 0 AND losses = 0 AND snoozes = 0
       AND checkpoint IS NULL AND nominal_at > clock_timestamp()
    RETURNING nominal_at
)
SELECT (SELECT runs FROM seen) AS seen,
       (SELECT min(nominal_at) FROM (SELECT nominal_at FROM from_upcoming
                                     UNION ALL SELECT nominal_at FROM from_live
                                     UNION ALL SELECT nominal_at FROM from_held) AS dropped) AS earliest
