-- Changes a one-shot that is not claimed: taken from where it is, put back with its new definition where its new time
-- belongs (held stays held). $1 namespace; $2 id; $3 the version it must have (null: any); $4 name; $5 task; $6 pool;
-- $7 priority; $8 tags; $9 payload with $10 its id and, when large, $11 its text or $15 its key in object storage; $12 options; $16 policies; $13 run_at (null: as it is); $14 lookahead.
-- A run that moves at this moment is missed: callers look where it is and repeat. Index: primary keys.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u
     WHERE u.namespace = $1 AND u.id = $2 AND ($3::integer IS NULL OR u.job_version = $3) RETURNING {u.run}
), from_held AS (
    DELETE FROM rota.held_runs AS h
     WHERE h.namespace = $1 AND h.id = $2 AND ($3::integer IS NULL OR h.job_version = $3) RETURNING {h.run}, h.gate
), from_live AS (
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = $1 AND l.id = $2 AND ($3::integer IS NULL OR l.job_version = $3) AND l.claim IS NULL
    RETURNING {l.run}
), changed AS (
    SELECT namespace, id, job_id, job_version + 1 AS job_version, owner, $4::text AS name, $5::text AS task,
           $6::text AS pool, $7::smallint AS priority, $8::text[] AS tags, $9::text AS payload,
           $10::uuid AS payload_id, $12::text AS options, cause, retry_of, root_id, shard,
           CASE WHEN attempt = 0 THEN coalesce($13::timestamptz, nominal_at) ELSE nominal_at END AS nominal_at,
           coalesce($13::timestamptz, run_at) AS run_at, attempt, losses, created_at,
           rota.changed_expiry(expires_at, options, attempt, snoozes, $12::text, coalesce($13::timestamptz, run_at))
               AS expires_at,
           checkpoint, snoozes, $16::jsonb AS policies, place
      FROM (SELECT *, 'free' AS place FROM from_upcoming
            UNION ALL SELECT *, 'free' FROM from_live
            UNION ALL SELECT {run}, CASE WHEN gate IN ('pause', 'recall') THEN 'held' ELSE 'free' END FROM from_held) AS t
), large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT namespace, $10::uuid, $11::text, $15::text FROM changed WHERE coalesce($11::text, $15::text) IS NOT NULL
), held AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'pause' FROM changed WHERE place = 'held'
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT {run} FROM changed WHERE place = 'free' AND run_at > now() + $14::interval
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM changed
     WHERE place = 'free' AND run_at <= now() + $14::interval AND policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM changed WHERE place = 'free' AND run_at <= now() + $14::interval AND policies IS NOT NULL
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, policies 
      FROM (SELECT {run} FROM from_upcoming WHERE attempt > 0 OR snoozes > 0
            UNION ALL SELECT {run} FROM from_live UNION ALL SELECT {run} FROM from_held) AS t
     WHERE policies IS NOT NULL
)
SELECT pool FROM changed
