-- Cancels runs wherever they are: an unclaimed run ends here; a claimed one is marked, and the caller notifies its
-- worker; an open workflow run is stopped, with a note to its conductor. The statement sees each run in exactly one place and misses a run that is moving: callers repeat it for ids
-- that were neither returned nor are finished.
-- Index: primary keys.
-- Locks: the runs in the order of the index, so that two cancels of the same runs can't deadlock.
-- Idioms: by_id.
WITH from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u
     WHERE rota.by_id(u.namespace) = :namespace AND u.id = ANY (:run_ids::uuid[]) RETURNING {u.run}
), from_held AS (
    DELETE FROM rota.held_runs AS h
     WHERE rota.by_id(h.namespace) = :namespace AND h.id = ANY (:run_ids::uuid[]) RETURNING {h.run}
), from_live AS (
    DELETE FROM rota.live_runs AS l
     WHERE rota.by_id(l.namespace) = :namespace AND l.id = ANY (:run_ids::uuid[]) AND l.claim IS NULL RETURNING {l.run}
), asked AS (
    UPDATE rota.live_runs AS l SET cancel_requested_at = coalesce(l.cancel_requested_at, now())
     WHERE rota.by_id(l.namespace) = :namespace AND l.id = ANY (:run_ids::uuid[]) AND l.claim IS NOT NULL
    RETURNING l.id, l.worker_id
), stopped AS (
    UPDATE rota.workflow_runs AS w SET stop = 'cancel', is_swept = false, revision = w.revision + 1
     WHERE rota.by_id(w.namespace) = :namespace AND w.carrier_id = ANY (:run_ids::uuid[]) AND w.ended_at IS NULL
       AND (w.stop IS NULL OR w.stop = 'failure')
    RETURNING w.namespace, w.id, w.shard, w.carrier_id
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM stopped
), ended AS (
    INSERT INTO rota.finished_runs ({run}, status, finished_at, cancel_requested, reason)
    SELECT {run}, 'cancelled', now(), true, :reason
      FROM (SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_held UNION ALL SELECT * FROM from_live) AS t
    RETURNING id
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'cancelled'
      FROM (SELECT * FROM from_upcoming WHERE attempt > 0 OR snoozes > 0 OR (policies -> 'awaited') IS NOT NULL
            UNION ALL SELECT * FROM from_held UNION ALL SELECT * FROM from_live) AS t
     WHERE policies IS NOT NULL
)
SELECT id, NULL::uuid AS worker_id FROM ended
UNION ALL
SELECT id, worker_id FROM asked
UNION ALL
SELECT carrier_id, NULL FROM stopped
