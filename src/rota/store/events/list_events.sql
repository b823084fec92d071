-- What happened to gates and pools, latest first. :namespace namespace; :before before this number; :owner owner, null for any; :limit limit.
-- Index: events_of_namespace.
SELECT id, at, kind, subject, detail FROM rota.events
 WHERE namespace = :namespace AND id < :before AND (:owner::text IS NULL OR owner = :owner) ORDER BY id DESC LIMIT :limit
