-- Destinations of a namespace by name, after one, with how many of their deliveries wait.
-- Index: destinations_named, deliveries_pending.
-- Locks: none
SELECT d.*, (SELECT count(*) FROM rota.deliveries AS p WHERE p.destination_id = d.id AND p.ended_at IS NULL) AS pending
  FROM rota.destinations AS d
 WHERE d.namespace = :namespace AND d.name > :after
 ORDER BY d.name LIMIT :limit
