-- Holds every unclaimed run of a paused recurring job at the gate 'pause'. $1 namespace; $2 job id; $3 the version
-- they were bound to: one that was missed then is left for the next round.
-- Index: ..._of_job.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u
     WHERE u.namespace = $1 AND u.job_id = $2 AND u.job_id <> u.id AND u.job_version = $3
    RETURNING {u.run}
), from_live AS (
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = $1 AND l.job_id = $2 AND l.job_id <> l.id AND l.worker_id IS NULL
       AND l.job_version = $3
    RETURNING {l.run}
), at_gate AS (
    UPDATE rota.held_runs AS h SET gate = 'pause', gate_key = NULL
     WHERE h.namespace = $1 AND h.job_id = $2 AND h.job_id <> h.id AND h.job_version = $3
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
