-- Events of a namespace before a number, latest first; of this owner, or of any (null).
-- Index: events_of_namespace.
-- Locks: none
SELECT id, at, kind, subject, detail, data FROM rota.events
 WHERE namespace = :namespace AND id < :before AND (:owner::text IS NULL OR owner = :owner) ORDER BY id DESC
 LIMIT :limit
