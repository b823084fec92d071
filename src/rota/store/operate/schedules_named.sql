-- Recurring jobs of this name that were not cancelled.
-- Index: primary key.
-- Locks: none
SELECT j.id FROM rota.jobs AS j
 WHERE j.namespace = :namespace AND j.name = :name AND j.state <> 'cancelled' AND (:owner::text IS NULL OR j.owner = :owner)
 ORDER BY j.id DESC
 LIMIT :limit
