-- A part of what the members of a map returned, the first behind a part.
-- Index: primary key.
-- Locks: none
SELECT r.part, r.lines FROM rota.map_results AS r
 WHERE r.namespace = :namespace AND r.flow = :flow AND r.node = :node AND r.part > :after::integer
 ORDER BY r.part LIMIT 1
