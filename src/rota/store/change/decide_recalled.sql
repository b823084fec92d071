-- Decides recalled runs by their job's current version: 'go' (with the current definition), 'hold' (the job is paused),
-- 'drop' (its schedule no longer has this time, or will make it again), 'cancel'. If the job has changed again since
-- the decision was made, the run stays at the gate for another look. Calls the runs that waited for it.
-- Index: primary keys.
-- Locks: the job's row FOR SHARE, then the run.
-- Idioms: OFFSET 0, one-element array, by_id.
WITH decided AS MATERIALIZED (
    SELECT i.namespace, i.id AS run_id, i.fate, j.*
      FROM unnest(:namespaces::text[], :run_ids::uuid[], :fates::text[], :versions::integer[])
           AS i (namespace, id, fate, version)
     CROSS JOIN LATERAL (SELECT h.namespace, h.job_id FROM rota.held_runs AS h
                          WHERE h.namespace = i.namespace AND h.id = i.id AND (h.gate = 'recall') IS TRUE OFFSET 0) AS h
      JOIN LATERAL (SELECT j.id AS of_job, j.version AS of_version, j.owner AS new_owner, j.name AS new_name,
                           j.task AS new_task, j.pool AS new_pool, j.priority AS new_priority, j.tags AS new_tags,
                           j.payload AS new_payload, j.payload_id AS new_payload_id, j.options AS new_options,
                           j.policies AS new_policies
                      FROM rota.jobs AS j
                     WHERE j.namespace = h.namespace AND j.id = h.job_id AND j.version = i.version
                    OFFSET 0 FOR SHARE) AS j ON true
), taken AS (
    DELETE FROM rota.held_runs AS h USING decided AS d
     WHERE rota.by_id(h.namespace) = ANY (ARRAY[d.namespace]) AND h.id = ANY (ARRAY[d.run_id])
       AND (h.gate = 'recall') IS TRUE
    RETURNING h.namespace, h.id, h.job_id, d.of_version AS job_version, d.new_owner AS owner, d.new_name AS name,
              d.new_task AS task, d.new_pool AS pool, d.new_priority AS priority, d.new_tags AS tags,
              d.new_payload AS payload, d.new_payload_id AS payload_id, d.new_options AS options, h.cause,
              h.retry_of, h.root_id, h.shard, h.nominal_at, h.run_at, h.attempt, h.losses, h.created_at,
              rota.changed_expiry(h.expires_at, h.options, h.attempt, h.snoozes, d.new_options, h.run_at) AS expires_at,
              h.checkpoint, h.snoozes, d.new_policies AS policies, d.fate, h.policies AS old_policies
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies)
    SELECT namespace, id, job_id, old_policies FROM taken WHERE old_policies IS NOT NULL
), held AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'pause' FROM taken WHERE fate = 'hold'
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT {run} FROM taken WHERE fate = 'go' AND run_at > now() + :lookahead::interval
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken WHERE fate = 'go'
       AND run_at <= now() + :lookahead::interval AND policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM taken WHERE fate = 'go' AND run_at <= now() + :lookahead::interval AND policies IS NOT NULL
), cancelled AS (
    INSERT INTO rota.finished_runs ({run}, status, finished_at, cancel_requested, reason)
    SELECT {run}, 'cancelled', now(), true, 'its job was cancelled' FROM taken WHERE fate = 'cancel'
), reopened AS (
    -- The dropped time is made again when the job is resumed before it: the mark goes back to just before it.
    UPDATE rota.jobs AS j SET fired_through = t.earliest - interval '1 microsecond'
      FROM (SELECT namespace, job_id, min(nominal_at) AS earliest FROM taken WHERE fate = 'drop' GROUP BY 1, 2) AS t
     WHERE rota.by_id(j.namespace) = ANY (ARRAY[t.namespace]) AND j.id = ANY (ARRAY[t.job_id]) AND j.state = 'paused'
       AND j.fired_through >= t.earliest
)
SELECT id, pool, fate FROM taken
