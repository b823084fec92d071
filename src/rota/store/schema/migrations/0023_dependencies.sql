-- Dependencies between jobs: the run of a job waits for runs of others. A schedule depends on schedules, a job that runs
-- once on jobs that run once. What a run waits for is in its policies (`after`); the rows here answer who depends on a job.
CREATE TABLE rota.dependencies (
    namespace text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,   -- the job that waits
    needs     uuid NOT NULL,   -- the job that it waits for
    look_at   timestamptz,     -- of a job that runs once: when the sweeper looks whether it still waits
    PRIMARY KEY (namespace, job_id, needs)
);
CREATE INDEX dependencies_needed ON rota.dependencies (namespace, needs);
CREATE INDEX dependencies_to_sweep ON rota.dependencies (look_at) WHERE look_at IS NOT NULL;

-- Where a run with dependencies waits: at 'dependent' until admission has looked at it, then at 'dependency'.
ALTER TABLE rota.held_runs DROP CONSTRAINT held_runs_gate_check,
  ADD CONSTRAINT held_runs_gate_check
    CHECK (gate IN ('pause', 'recall', 'new', 'order', 'limit', 'rate', 'breaker', 'overlap', 'dependent',
                    'dependency'));

-- A run that depends on other jobs, and one that is a workflow run to be opened, come to the gate 'dependent' where any other
-- comes to 'new': a scheduler of a release that doesn't know these looks at 'new' alone, and would let them through as jobs.
-- Retries and runs that people start wait for no other job.
CREATE FUNCTION rota.await_others() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.gate := 'dependent';
    RETURN NEW;
END
$$;

CREATE TRIGGER await_others BEFORE INSERT OR UPDATE ON rota.held_runs
    FOR EACH ROW WHEN (NEW.gate = 'new' AND (NEW.policies ? 'opens' OR NEW.policies ? 'after' AND NEW.attempt = 0
                       AND NEW.snoozes = 0 AND NEW.cause IN ('submit', 'schedule')))
    EXECUTE FUNCTION rota.await_others();

REVOKE ALL ON FUNCTION rota.await_others() FROM PUBLIC;

CREATE OR REPLACE VIEW rota.open_runs WITH (security_invoker = true) AS
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
