-- The items of a map that were given as a list (JSON).
-- Index: primary key.
-- Locks: none
SELECT m.items FROM rota.workflow_maps AS m WHERE m.namespace = :namespace AND m.flow = :flow AND m.node = :node
