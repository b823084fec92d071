-- Moves a run from live to finished (success), fenced by its claim number; for the owner and complete_v1 alone.
-- From here on the transaction may not rest: a process that is paused before its commit must not hold the run for long.
CREATE FUNCTION rota.complete_unbound(
    of_namespace text, of_run uuid, of_claim bigint, began_at timestamptz, returned text, kept_at text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    taken rota.live_runs;
BEGIN
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim = of_claim
    RETURNING l.* INTO taken;
    IF taken.id IS NULL THEN
        RETURN false;
    END IF;
    FOR look IN 1..2 LOOP
        BEGIN
            INSERT INTO rota.finished_runs (
                namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at, expires_at,
                checkpoint, snoozes, policies, status, started_at, finished_at, worker_id, claim, progress,
                progress_note, cancel_requested, result, result_blob)
            VALUES (
                taken.namespace, taken.id, taken.job_id, taken.job_version, taken.owner, taken.name, taken.task,
                taken.pool, taken.priority, taken.tags, taken.payload, taken.payload_id, taken.options, taken.cause,
                taken.retry_of, taken.root_id, taken.shard, taken.nominal_at, taken.run_at, taken.attempt + 1,
                taken.losses, taken.created_at, taken.expires_at, taken.checkpoint, taken.snoozes, taken.policies,
                'success', began_at, clock_timestamp(), taken.worker_id, taken.claim, taken.progress,
                taken.progress_note, taken.cancel_requested_at IS NOT NULL, returned, kept_at);
            EXIT;
        EXCEPTION WHEN check_violation THEN
            -- Its day had no partition; another process may have made it meanwhile.
            IF look = 2 THEN
                RAISE;
            END IF;
            PERFORM rota.make_day_of(of_run);
        END;
    END LOOP;
    IF taken.policies IS NOT NULL THEN
        INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
        VALUES (taken.namespace, taken.id, taken.job_id, taken.policies, 'success');
        PERFORM pg_notify('rota_gate', '');
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', '2s', true);
    RETURN true;
END
$$;
