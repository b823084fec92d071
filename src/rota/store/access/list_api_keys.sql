-- Keys of a namespace, latest first: what they are, never what is secret.
-- Index: api_keys_of_namespace.
-- Locks: none
SELECT id, namespace, name, prefix, owner, grants::text AS grants, scopes, created_at, created_by, expires_at,
       revoked_at,
       revoked_by, last_used_at, expires_at <= now() AS expired
  FROM rota.api_keys
 WHERE kind = 'key' AND namespace = :namespace AND id < :before
 ORDER BY id DESC
 LIMIT :limit
