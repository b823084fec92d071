-- Deletes a destination and its deliveries.
-- Index: destinations_named, primary key of deliveries.
-- Locks: the destination.
DELETE FROM rota.destinations WHERE namespace = :namespace AND name = :name RETURNING *, 0 AS pending
