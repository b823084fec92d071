-- A part of what the members of a map returned, the first from a part on.
-- Index: primary key.
-- Locks: none
SELECT r.part, r.lines FROM rota.map_results AS r
 WHERE r.namespace = :namespace AND r.flow = :flow AND r.node = :node AND r.part >= :first::integer
 ORDER BY r.part LIMIT 1
