-- Holds every unclaimed run of a paused recurring job at the gate 'pause'; of those that were bound to this version:
-- one that was missed then is left for the next round.
-- Index: upcoming_runs_of_job, live_runs_of_job, held_runs_of_job.
-- Locks: the runs.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u
     WHERE u.namespace = :namespace AND u.job_id = :job_id AND u.job_id <> u.id AND u.job_version = :version
    RETURNING {u.run}
), from_live AS (
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = :namespace AND l.job_id = :job_id AND l.job_id <> l.id AND l.worker_id IS NULL
       AND l.job_version = :version
    RETURNING {l.run}
), at_gate AS (
    UPDATE rota.held_runs AS h SET gate = 'pause', gate_key = NULL
     WHERE h.namespace = :namespace AND h.job_id = :job_id AND h.job_id <> h.id AND h.job_version = :version
       AND h.gate NOT IN ('pause', 'recall')
    RETURNING {h.run}
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, policies
      FROM (SELECT * FROM from_upcoming WHERE attempt > 0 OR snoozes > 0
            UNION ALL SELECT * FROM from_live UNION ALL SELECT * FROM at_gate) AS t
     WHERE policies IS NOT NULL
)
INSERT INTO rota.held_runs ({run}, gate)
SELECT {run}, 'pause' FROM (SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_live) AS t
