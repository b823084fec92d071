-- Releases what a pause held: back to upcoming, live or its gates, by its time.
-- Index: held_runs_of_job.
-- Locks: the runs.
WITH taken AS (
    DELETE FROM rota.held_runs AS h
     WHERE h.namespace = :namespace AND h.job_id = :job_id AND h.job_id <> h.id AND h.gate = 'pause' RETURNING {h.run}
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run}) SELECT {run} FROM taken WHERE run_at > now() + :lookahead::interval
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
     WHERE run_at <= now() + :lookahead::interval AND policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM taken WHERE run_at <= now() + :lookahead::interval AND policies IS NOT NULL
)
SELECT pool FROM taken
