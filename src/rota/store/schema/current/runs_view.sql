-- Runs that have not ended, in whichever table they are; columns that came later stand at the end. Each branch is served by
-- its primary key in the order of ids. Views show each role what the role's own rights on the tables show it.
--   status       what people see: scheduled, retrying, blocked, queued, running, success, failed, cancelled, skipped
--   place        the table it is in: upcoming, held, live, workflow (an open workflow run), finished
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
       CASE WHEN gate IN ('new', 'dependent') AND run_at > now()
            THEN CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END ELSE 'blocked' END,
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
  FROM rota.live_runs
UNION ALL
SELECT namespace, carrier_id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       'running', 'workflow', NULL, opened_at, NULL, NULL, NULL, NULL, NULL, stop IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, NULL
  FROM rota.workflow_runs
 WHERE ended_at IS NULL;

-- Every run. A generic plan over it locks each day of history: a run by its id is looked for in open_runs first.
CREATE VIEW rota.runs WITH (security_invoker = true) AS
SELECT * FROM rota.open_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason,
       expires_at, checkpoint, snoozes, result_blob, policies, NULL
  FROM rota.finished_runs;
