-- Ends a key of one of these namespaces. One that was revoked before stays as it is.
-- Index: primary key.
-- Locks: the key's row.
UPDATE rota.api_keys
   SET revoked_at = coalesce(revoked_at, now()), revoked_by = coalesce(revoked_by, :revoked_by)
 WHERE id = :key_id AND namespace = ANY (:namespaces::text[]) AND kind = 'key'
RETURNING id, namespace, name, prefix, owner, grants::text AS grants, scopes, created_at, created_by, expires_at,
          revoked_at,
          revoked_by, last_used_at, expires_at <= now() AS expired
