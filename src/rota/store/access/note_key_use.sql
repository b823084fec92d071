-- These keys were used just now.
-- Index: primary key, in the order given.
-- Locks: the keys' rows.
UPDATE rota.api_keys SET last_used_at = now() WHERE id = ANY (:ids::uuid[])
