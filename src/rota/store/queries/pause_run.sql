-- Pauses a one-shot that is not claimed: upcoming or live -> held. $1 namespace; $2 run id. Index: primary keys.
-- A run that moves at this moment is missed: callers look where it is and repeat.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u WHERE u.namespace = $1 AND u.id = $2 AND u.job_id = u.id RETURNING {u.run}
), from_live AS (
    DELETE FROM rota.live_runs AS l WHERE l.namespace = $1 AND l.id = $2 AND l.job_id = l.id AND l.claim IS NULL
    RETURNING {l.run}
)
INSERT INTO rota.held_runs ({run}, gate)
SELECT {run}, 'pause' FROM (SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_live) AS t
RETURNING id
