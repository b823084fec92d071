-- Members of a map that failed, by the numbers of their items, from behind one on.
-- Index: primary key.
-- Locks: none
SELECT f.item, f.run_id, f.reason, f.is_redone FROM rota.map_failures AS f
 WHERE f.namespace = :namespace AND f.flow = :flow AND f.node = :node AND f.item > :after::integer
 ORDER BY f.item LIMIT :limit
