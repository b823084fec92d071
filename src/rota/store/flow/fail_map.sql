-- Makes a map fail for good, because its items can't be read; with a note to its conductor.
-- Index: primary key.
-- Locks: none of its own: callers have locked the workflow run.
WITH failed AS (
    UPDATE rota.workflow_maps AS m SET is_failing = true, error = :error
     WHERE m.namespace = :namespace AND m.flow = :flow AND m.node = :node AND m.generation = :generation AND NOT m.is_failing
    RETURNING m.shard, m.namespace, m.flow
)
INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, flow FROM failed
RETURNING flow
