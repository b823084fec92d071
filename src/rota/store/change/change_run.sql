-- Changes a one-shot that is not claimed and has this version (null: any): taken from where it is, put back with its
-- new definition where its new time belongs (held stays held). `run_at` null: as it is. A run that moves at this moment
-- is missed: callers look where it is and repeat.
-- Index: primary keys.
-- Locks: the run.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u
     WHERE u.namespace = :namespace AND u.id = :run_id AND (:version::integer IS NULL OR u.job_version = :version)
    RETURNING {u.run}
), from_held AS (
    DELETE FROM rota.held_runs AS h
     WHERE h.namespace = :namespace AND h.id = :run_id AND (:version::integer IS NULL OR h.job_version = :version)
    RETURNING {h.run}, h.gate
), from_live AS (
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = :namespace AND l.id = :run_id AND (:version::integer IS NULL OR l.job_version = :version)
       AND l.claim IS NULL
    RETURNING {l.run}
), changed AS (
    SELECT namespace, id, job_id, job_version + 1 AS job_version, owner, :name::text AS name, :task::text AS task,
           :pool::text AS pool, :priority::smallint AS priority, :tags::text[] AS tags, :payload::text AS payload,
           :payload_id::uuid AS payload_id, :options::text AS options, cause, retry_of, root_id, shard,
           CASE WHEN attempt = 0 THEN coalesce(:run_at::timestamptz, nominal_at) ELSE nominal_at END AS nominal_at,
           coalesce(:run_at::timestamptz, run_at) AS run_at, attempt, losses, created_at,
           rota.changed_expiry(expires_at, options, attempt, snoozes, :options::text,
                               coalesce(:run_at::timestamptz, run_at))
               AS expires_at,
           checkpoint, snoozes, :policies::jsonb AS policies, place
      FROM (SELECT *, 'free' AS place FROM from_upcoming
            UNION ALL SELECT *, 'free' FROM from_live
            UNION ALL SELECT {run}, CASE WHEN gate IN ('pause', 'recall') THEN 'held' ELSE 'free' END
            FROM from_held) AS t
), large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT namespace, :payload_id::uuid, :large_payload::text, :blob::text FROM changed
     WHERE coalesce(:large_payload::text, :blob::text) IS NOT NULL
), held AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'pause' FROM changed WHERE place = 'held'
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT {run} FROM changed WHERE place = 'free' AND run_at > now() + :lookahead::interval
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM changed
     WHERE place = 'free' AND run_at <= now() + :lookahead::interval AND policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM changed WHERE place = 'free' AND run_at <= now() + :lookahead::interval
       AND policies IS NOT NULL
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, policies
      FROM (SELECT {run} FROM from_upcoming WHERE attempt > 0 OR snoozes > 0
            UNION ALL SELECT {run} FROM from_live UNION ALL SELECT {run} FROM from_held) AS t
     WHERE policies IS NOT NULL
)
SELECT pool FROM changed
