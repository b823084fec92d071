-- A destination, to be changed.
-- Index: destinations_named.
-- Locks: the destination.
SELECT * FROM rota.destinations WHERE namespace = :namespace AND name = :name FOR UPDATE
