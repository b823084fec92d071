-- Opens a run of a workflow outside its schedule, with a note to the conductor. Gives `opened` false if the workflow is not
-- at this version any more, or was deleted; `taken` true if the idempotency key (null: none) was used before: the first
-- answer stays.
-- Index: primary keys.
-- Locks: the workflow's row FOR SHARE: a change or delete that is under way is waited for and then seen; the key.
WITH workflow AS MATERIALIZED (
    SELECT * FROM rota.workflows AS w
     WHERE w.namespace = :namespace AND w.id = :workflow_id AND w.state <> 'deleted' AND w.version = :version
       FOR SHARE
), keyed AS (
    INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
    SELECT w.namespace, 'idempotency', :key, :request_hash::bytea, :answer, now() + interval '24 hours'
      FROM workflow AS w WHERE :key::text IS NOT NULL
    ON CONFLICT (namespace, kind, key) DO UPDATE
       SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE submission_keys.expires_at < now()
    RETURNING key
), opened AS (
    INSERT INTO rota.workflow_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                    options, cause, shard, nominal_at, run_at, attempt, losses, created_at, snoozes,
                                    carrier_id, workflow_id, version, timezone, root, pins,
                                    started_by, deadline_at)
    SELECT w.namespace, :flow::uuid, w.job_id, w.revision, w.owner, w.name, 'workflow', 'default', 0, '{}', :inputs, '{}',
           'manual', :shard::smallint, now(), now(), 0, 0, now(), 0, :flow::uuid, w.id, w.version, w.timezone,
           :flow::uuid, :pins, :started_by,
           now() + w.deadline_seconds * interval '1 second'
      FROM workflow AS w
     WHERE :key::text IS NULL OR EXISTS (SELECT FROM keyed)
    RETURNING namespace, id, shard
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM opened
)
SELECT EXISTS (SELECT FROM opened) AS opened, EXISTS (SELECT FROM workflow) AND NOT EXISTS (SELECT FROM opened) AS taken
