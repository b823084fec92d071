-- Whether something is due, when the next thing will be, and when the next run that was tried before is. :tasks the tasks that are
-- served here: a task that no worker here runs is not waited for. Everything a scheduler or a worker acts on by the clock is in here; what is
-- to be looked at without regard to time counts as due since ever. Reads whole tables: those of a test are small.
WITH moments (at) AS (
    SELECT next_fire_at FROM rota.jobs WHERE state = 'scheduled'
    UNION ALL
    SELECT run_at FROM rota.upcoming_runs
    UNION ALL
    SELECT ready_at FROM rota.live_runs WHERE worker_id IS NULL AND task = ANY (:tasks::text[])
    UNION ALL
    SELECT run_at FROM rota.held_runs WHERE gate IN ('new', 'dependent') AND gate_key IS NULL
    UNION ALL
    SELECT wakes_at FROM rota.gates WHERE wakes_at IS NOT NULL
    UNION ALL
    -- Expired is what is past its time, not what is at it.
    SELECT expires_at + interval '1 microsecond' FROM rota.live_runs WHERE worker_id IS NULL AND expires_at IS NOT NULL
    UNION ALL
    SELECT expires_at + interval '1 microsecond' FROM rota.held_runs WHERE expires_at IS NOT NULL
    UNION ALL
    SELECT '-infinity' FROM rota.held_runs WHERE gate = 'recall'
    UNION ALL
    SELECT '-infinity' FROM rota.departures
    UNION ALL
    SELECT wakes_at FROM rota.flow_waits WHERE wakes_at IS NOT NULL
    UNION ALL
    SELECT deadline_at FROM rota.workflow_runs WHERE ended_at IS NULL AND stop IS NULL AND deadline_at IS NOT NULL
    UNION ALL
    SELECT '-infinity' FROM rota.workflow_runs WHERE ended_at IS NULL AND stop IS NOT NULL AND NOT is_swept
    UNION ALL
    SELECT '-infinity' FROM rota.workflow_maps WHERE is_failing AND NOT is_swept
    UNION ALL
    SELECT '-infinity' FROM rota.workflow_maps AS m JOIN rota.workflow_runs AS w ON w.namespace = m.namespace AND w.id = m.flow
     WHERE (m.is_redone OR NOT m.is_made) AND NOT m.is_failing AND m.made - m.ended < m.member_window
       AND w.ended_at IS NULL AND NOT w.is_paused
    UNION ALL
    SELECT '-infinity' FROM rota.flow_notes
)
SELECT coalesce(bool_or(at <= now()), false) AS is_due,
       min(at) FILTER (WHERE at > now()) AS next_at,
       (SELECT min(run_at) FROM rota.open_runs
         WHERE attempt > 0 AND run_at > now() AND status IN ('retrying', 'queued')) AS retry_at
  FROM moments
