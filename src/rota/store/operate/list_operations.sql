-- Operations with ids below `before`, latest first; of these kinds, of this owner, open or not (null: any).
-- Index: primary key.
-- Locks: none
SELECT * FROM rota.operations AS o
 WHERE o.namespace = :namespace AND o.id < :before AND (:kind::text IS NULL OR o.kind = :kind)
   AND (:owner::text IS NULL OR o.owner = :owner) AND (:state::text IS NULL OR o.state = :state)
 ORDER BY o.id DESC
 LIMIT :limit
