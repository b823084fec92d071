-- Makes new runs of runs that were there before; rows of history stay as they are. Cause 'manual' (run now, a new
-- idempotency key), 'retry' or 'redrive' (same key, and the checkpoint that was left). A retry or redrive takes the
-- dead letter of its run with it; a redrive needs one. A dead letter whose run is no longer in history stays: there is
-- nothing to run. Workflow runs and the runs of their nodes run again by a resume (store/flow); run now, a node's run is a job
-- of its own.
-- Index: primary keys.
-- Locks: the dead letters.
-- Idioms: OFFSET 0, one-element array, by_id.
WITH input AS MATERIALIZED (
    SELECT :namespace::text AS namespace, * FROM unnest(:run_ids::uuid[], :new_ids::uuid[]) AS i (old_id, new_id)
), raised AS (
    DELETE FROM rota.dead_letters AS d USING input AS i
     WHERE rota.by_id(d.namespace) = ANY (ARRAY[i.namespace]) AND d.run_id = ANY (ARRAY[i.old_id])
       AND :cause::text <> 'manual'
       AND EXISTS (SELECT FROM rota.finished_runs AS f
                    WHERE f.namespace = i.namespace AND f.id = i.old_id AND f.cause NOT IN ('node', 'member') OFFSET 0)
    RETURNING d.run_id
), made AS MATERIALIZED (
    SELECT r.namespace, i.new_id AS id, CASE WHEN r.cause IN ('node', 'member') THEN i.new_id ELSE r.job_id END AS job_id,
           CASE WHEN r.cause IN ('node', 'member') THEN 1 ELSE r.job_version END AS job_version, r.owner, r.name, r.task, r.pool, r.priority, r.tags,
           r.payload, r.payload_id, r.options, :cause::text AS cause, r.id AS retry_of,
           CASE WHEN :cause::text <> 'manual' THEN coalesce(r.root_id, r.id) END AS root_id, r.shard,
                now() AS nominal_at,
           now() AS run_at, 0 AS attempt, 0 AS losses, now() AS created_at,
           rota.expiry_of(r.options, now()) AS expires_at,
           CASE WHEN :cause::text <> 'manual' THEN r.checkpoint END AS checkpoint, 0 AS snoozes, r.policies
      FROM input AS i
     CROSS JOIN LATERAL (SELECT * FROM rota.runs AS r WHERE r.namespace = i.namespace AND r.id = i.old_id OFFSET 0) AS r
     WHERE (:cause::text <> 'redrive' OR i.old_id IN (SELECT run_id FROM raised))
       AND (:cause::text = 'manual' OR r.cause NOT IN ('node', 'member'))
       AND NOT EXISTS (SELECT FROM rota.workflow_runs AS w WHERE w.namespace = r.namespace AND w.carrier_id = r.id)
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
)
SELECT id, retry_of, pool, options, CASE WHEN policies IS NULL THEN 'queued' ELSE 'blocked' END AS status FROM made
