-- Notes that all runs that a stop, or the failure of a map, concerns were told. A stop that came meanwhile, or one
-- of a later generation, stands.
-- Index: primary keys.
-- Locks: none of its own: callers have locked the workflow run.
WITH flow AS (
    UPDATE rota.workflow_runs AS w SET is_swept = true
     WHERE w.namespace = :namespace AND w.id = :flow AND w.stop = :stop::text AND w.generation = :generation
       AND :node::integer IS NULL
)
UPDATE rota.workflow_maps AS m SET is_swept = true
 WHERE m.namespace = :namespace AND m.flow = :flow AND m.node = :node AND m.is_failing
   AND EXISTS (SELECT FROM rota.workflow_runs AS f
                WHERE f.namespace = m.namespace AND f.id = m.flow AND f.generation = :generation)
