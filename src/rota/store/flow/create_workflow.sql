-- Creates a workflow with its first version; gives nothing if another one has the name.
-- Index: workflows_by_name.
-- Locks: none
WITH made AS (
    INSERT INTO rota.workflows (namespace, id, name, owner, version, state, job_id, schedule, timezone,
                                deadline_seconds)
    VALUES (:namespace, :workflow_id, :name, :owner, :version, 'active', :job_id, :schedule, :timezone, :deadline_seconds)
    ON CONFLICT (namespace, name) WHERE state <> 'deleted' DO NOTHING
    RETURNING namespace, id, version
)
INSERT INTO rota.workflow_versions (namespace, workflow_id, version, number, definition, created_by)
SELECT namespace, id, version, 1, :definition, :owner FROM made
RETURNING workflow_id
