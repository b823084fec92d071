-- Gives a workflow another definition. The version is kept if it was there before. Gives nothing if the workflow has another
-- revision, or was deleted.
-- Index: primary key.
-- Locks: the workflow.
WITH changed AS (
    UPDATE rota.workflows AS w
       SET version = :version, schedule = :schedule, timezone = :timezone, job_id = :job_id, deadline_seconds = :deadline_seconds, revision = w.revision + 1, changed_at = now()
     WHERE w.namespace = :namespace AND w.id = :workflow_id AND w.state <> 'deleted' AND w.revision = :revision
    RETURNING w.namespace, w.id
), kept AS (
    INSERT INTO rota.workflow_versions (namespace, workflow_id, version, number, definition, created_by)
    SELECT c.namespace, c.id, :version,
           (SELECT max(v.number) + 1 FROM rota.workflow_versions AS v WHERE v.namespace = c.namespace AND v.workflow_id = c.id),
           :definition, :changed_by
      FROM changed AS c
    ON CONFLICT (namespace, workflow_id, version) DO NOTHING
)
SELECT id FROM changed
