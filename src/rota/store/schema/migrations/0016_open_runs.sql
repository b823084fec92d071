-- Runs that have not ended, without history: a plan over the view of all runs locks each day of history.
CREATE VIEW rota.open_runs WITH (security_invoker = true) AS
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS status,
       'upcoming' AS place, NULL::text AS gate, NULL::timestamptz AS started_at,
       NULL::timestamptz AS finished_at, NULL::uuid AS worker_id, NULL::bigint AS claim,
       NULL::real AS progress, NULL::text AS progress_note, false AS cancel_requested,
       NULL::text AS error, NULL::text AS traceback, NULL::text AS result, NULL::text AS reason,
       expires_at, checkpoint, snoozes, NULL::text AS result_blob, policies, NULL::text AS gate_key
  FROM rota.upcoming_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN gate = 'new' AND run_at > now() THEN CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END
            ELSE 'blocked' END,
       'held', gate, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, gate_key
  FROM rota.held_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       -- Claimed ahead of its time, it does not run yet.
       CASE WHEN worker_id IS NULL OR ready_at > now() THEN 'queued' ELSE 'running' END,
       'live', NULL, CASE WHEN ready_at <= now() THEN started_at END, NULL, worker_id, claim,
       progress, progress_note, cancel_requested_at IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, NULL
  FROM rota.live_runs;


CREATE OR REPLACE VIEW rota.runs WITH (security_invoker = true) AS
SELECT * FROM rota.open_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason,
       expires_at, checkpoint, snoozes, result_blob, policies, NULL
  FROM rota.finished_runs;

-- A run whose day another transaction has just made is replaced, too: making it again makes nothing.
CREATE OR REPLACE FUNCTION rota.replace_waiting(of_namespace text, of_run uuid, replaced_by uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR look IN 1..2 LOOP
        BEGIN
            WITH from_upcoming AS (
                DELETE FROM rota.upcoming_runs AS u WHERE u.namespace = of_namespace AND u.id = of_run
                RETURNING u.namespace, u.id, u.job_id, u.job_version, u.owner, u.name, u.task, u.pool, u.priority, u.tags,
                          u.payload, u.payload_id, u.options, u.cause, u.retry_of, u.root_id, u.shard, u.nominal_at, u.run_at,
                          u.attempt, u.losses, u.created_at, u.expires_at, u.checkpoint, u.snoozes, u.policies
            ), from_held AS (
                DELETE FROM rota.held_runs AS h WHERE h.namespace = of_namespace AND h.id = of_run
                RETURNING h.namespace, h.id, h.job_id, h.job_version, h.owner, h.name, h.task, h.pool, h.priority, h.tags,
                          h.payload, h.payload_id, h.options, h.cause, h.retry_of, h.root_id, h.shard, h.nominal_at, h.run_at,
                          h.attempt, h.losses, h.created_at, h.expires_at, h.checkpoint, h.snoozes, h.policies
            ), from_live AS (
                DELETE FROM rota.live_runs AS l WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim IS NULL
                RETURNING l.namespace, l.id, l.job_id, l.job_version, l.owner, l.name, l.task, l.pool, l.priority, l.tags,
                          l.payload, l.payload_id, l.options, l.cause, l.retry_of, l.root_id, l.shard, l.nominal_at, l.run_at,
                          l.attempt, l.losses, l.created_at, l.expires_at, l.checkpoint, l.snoozes, l.policies
            ), taken AS (
                SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_held UNION ALL SELECT * FROM from_live
            ), departed AS (
                INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
                SELECT namespace, id, job_id, policies, 'cancelled' FROM taken WHERE policies IS NOT NULL
            )
            INSERT INTO rota.finished_runs (
                namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id, options,
                cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at, expires_at, checkpoint,
                snoozes, policies, status, finished_at, cancel_requested, reason)
            SELECT t.*, 'cancelled', clock_timestamp(), true,
                   'replaced by job_' || replace(replaced_by::text, '-', '') || ', which has the same unique key'
              FROM taken AS t;
            RETURN;
        EXCEPTION WHEN check_violation THEN
            -- Its day has no partition yet. Making one holds up all others who need one until this transaction ends:
            -- only then. Where another has just made it, nothing is made, and it is there all the same.
            IF look = 2 THEN
                RAISE;
            END IF;
            PERFORM rota.make_day_of(of_run);
        END;
    END LOOP;
END
$$;
