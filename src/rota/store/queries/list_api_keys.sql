-- Keys of a namespace, latest first; what they are, never what is secret. $1 namespace; $2 before this id; $3 limit.
-- Index: api_keys_of_namespace.
SELECT id, namespace, name, prefix, owner, grants::text AS grants, scopes, created_at, created_by, expires_at, revoked_at,
       revoked_by, last_used_at, expires_at <= now() AS expired
  FROM rota.api_keys
 WHERE kind = 'key' AND namespace = $1 AND id < $2
 ORDER BY id DESC
 LIMIT $3
