-- What happened to gates and pools, latest first. $1 namespace; $2 before this number; $3 owner, null for any; $4 limit.
-- Index: events_of_namespace.
SELECT id, at, kind, subject, detail FROM rota.events
 WHERE namespace = $1 AND id < $2 AND ($3::text IS NULL OR owner = $3) ORDER BY id DESC LIMIT $4
