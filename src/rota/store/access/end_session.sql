-- Ends a session.
-- Index: api_keys_hash_key.
-- Locks: the session's row.
UPDATE rota.api_keys SET revoked_at = now(), revoked_by = owner
 WHERE hash = :hash AND kind = 'session' AND revoked_at IS NULL
RETURNING id
