-- Events of a namespace with numbers in (after, until], in order; of this owner, or of any (null).
-- Index: primary key.
-- Locks: none
SELECT id, at, kind, subject, detail, data FROM rota.events
 WHERE namespace = :namespace AND id > :after AND id <= :until AND (:owner::text IS NULL OR owner = :owner)
 ORDER BY id LIMIT :limit
