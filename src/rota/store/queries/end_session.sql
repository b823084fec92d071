-- Ends a session. $1 hash. Index: api_keys_hash_key.
UPDATE rota.api_keys SET revoked_at = now(), revoked_by = owner
 WHERE hash = $1 AND kind = 'session' AND revoked_at IS NULL
RETURNING id
