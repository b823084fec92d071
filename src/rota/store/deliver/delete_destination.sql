-- Deletes a destination and its deliveries.
-- Index: destinations_namespace_name_key, primary key of deliveries.
-- Locks: the destination.
DELETE FROM rota.destinations WHERE namespace = :namespace AND name = :name RETURNING *, 0 AS pending
