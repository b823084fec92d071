-- Housekeeping on small tables, at most `limit` rows of each: expired keys (a unique key whose job still waits is
-- kept), buckets that are full again, ended sessions, old events, gone workers that hold no runs (marked, so that the
-- reaper need not look again; deleted after an hour), old tallies, schedulers silent for a day, tasks that no worker has
-- announced for a week (those of live workers are marked as seen), dependencies of jobs that ran once and have ended.
-- Index: submission_keys_expiry, dependencies_to_sweep, gates_idle, api_keys_ended_sessions, the primary key of events, live_runs_claimed; the
-- rest reads small tables.
-- Locks: keys, gates, buckets and dependencies FOR UPDATE SKIP LOCKED; the rows it deletes.
-- Idioms: OFFSET 0, ctid.
WITH expired AS MATERIALIZED (
    SELECT k.ctid AS place,
           k.kind = 'unique' AND (
               EXISTS (SELECT FROM rota.jobs AS j WHERE j.namespace = k.namespace AND j.id = k.answer::uuid
                                                    AND j.state IN ('scheduled', 'paused') OFFSET 0)
               OR EXISTS (SELECT FROM rota.runs AS r WHERE r.namespace = k.namespace AND r.id = k.answer::uuid
                                                       AND r.place <> 'finished' OFFSET 0)) AS kept
      FROM rota.submission_keys AS k
     WHERE k.expires_at < now() ORDER BY k.expires_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), longer AS (
    UPDATE rota.submission_keys SET expires_at = now() + interval '1 day'
     WHERE ctid = ANY (ARRAY(SELECT place FROM expired WHERE kept))
), keys AS (
    DELETE FROM rota.submission_keys WHERE ctid = ANY (ARRAY(SELECT place FROM expired WHERE NOT kept))
    RETURNING 1
), idle_gates AS (
    DELETE FROM rota.gates
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.gates
                              WHERE full_at < now() AND wakes_at IS NULL
                              ORDER BY full_at LIMIT :limit FOR UPDATE SKIP LOCKED))
), old_sessions AS (
    DELETE FROM rota.api_keys
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.api_keys
                              WHERE kind = 'session' AND expires_at < now() - interval '1 day'
                              ORDER BY expires_at LIMIT :limit))
), idle_buckets AS (
    DELETE FROM rota.buckets
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.buckets WHERE full_at < now() LIMIT :limit FOR UPDATE SKIP LOCKED))
), old_events AS (
    DELETE FROM rota.events WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.events WHERE at < now() - interval '90 days'
                                                     ORDER BY id LIMIT :limit))
), emptied AS (
    UPDATE rota.workers AS w SET reaped = true
     WHERE w.gone_at IS NOT NULL AND NOT w.reaped
       AND NOT EXISTS (SELECT FROM rota.live_runs AS l WHERE l.worker_id = w.id OFFSET 0)
), old_tallies AS (
    DELETE FROM rota.tallies WHERE at < now() - interval '15 minutes'
), old_workers AS (
    DELETE FROM rota.workers WHERE gone_at < now() - interval '1 hour' AND reaped
), seen_tasks AS (
    UPDATE rota.announced_tasks AS a SET seen_at = now()
     WHERE a.seen_at < now() - interval '1 hour'
       AND EXISTS (SELECT FROM rota.workers AS w
                    WHERE w.app_namespace = a.namespace AND w.app = a.app AND w.app_version = a.version
                      AND w.announced = a.digest AND w.gone_at IS NULL)
), old_tasks AS (
    DELETE FROM rota.announced_tasks AS a
     WHERE a.seen_at < now() - interval '7 days'
       AND NOT EXISTS (SELECT FROM rota.workers AS w
                        WHERE w.app_namespace = a.namespace AND w.app = a.app AND w.app_version = a.version
                          AND w.announced = a.digest AND w.gone_at IS NULL)
), dependents AS MATERIALIZED (
    SELECT d.ctid AS place,
           EXISTS (SELECT FROM rota.open_runs AS r
                    WHERE r.namespace = d.namespace AND r.id = d.job_id OFFSET 0) AS waits
      FROM rota.dependencies AS d
     WHERE d.look_at IS NOT NULL AND d.look_at < now() ORDER BY d.look_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), still_waiting AS (
    UPDATE rota.dependencies SET look_at = now() + interval '1 hour'
     WHERE ctid = ANY (ARRAY(SELECT place FROM dependents WHERE waits))
), old_dependents AS (
    DELETE FROM rota.dependencies WHERE ctid = ANY (ARRAY(SELECT place FROM dependents WHERE NOT waits))
), old_schedulers AS (
    DELETE FROM rota.schedulers AS s
     WHERE s.beat_at < now() - interval '1 day'
       AND NOT EXISTS (SELECT FROM rota.shard_leases AS l WHERE l.owner = s.id)
)
SELECT count(*) FROM keys
