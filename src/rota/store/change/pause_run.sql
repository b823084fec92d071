-- Pauses a one-shot that is not claimed: upcoming, live or at a gate -> held at 'pause'. A run that moves at this
-- moment is missed: callers look where it is and repeat.
-- Index: primary keys.
-- Locks: the run.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u WHERE u.namespace = :namespace AND u.id = :run_id AND u.job_id = u.id
    RETURNING {u.run}
), from_live AS (
    DELETE FROM rota.live_runs AS l WHERE l.namespace = :namespace AND l.id = :run_id AND l.job_id = l.id
       AND l.claim IS NULL
    RETURNING {l.run}
), at_gate AS (
    UPDATE rota.held_runs AS h SET gate = 'pause', gate_key = NULL
     WHERE h.namespace = :namespace AND h.id = :run_id AND h.job_id = h.id AND h.gate NOT IN ('pause', 'recall')
    RETURNING {h.run}
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, policies
      FROM (SELECT * FROM from_upcoming WHERE attempt > 0 OR snoozes > 0
            UNION ALL SELECT * FROM from_live UNION ALL SELECT * FROM at_gate) AS t
     WHERE policies IS NOT NULL
), held AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'pause' FROM (SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_live) AS t
    RETURNING id
)
SELECT id FROM held UNION ALL SELECT id FROM at_gate
