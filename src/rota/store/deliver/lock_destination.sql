-- A destination, to be changed.
-- Index: destinations_namespace_name_key.
-- Locks: the destination.
SELECT * FROM rota.destinations WHERE namespace = :namespace AND name = :name FOR UPDATE
