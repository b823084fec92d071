-- Ends a key. One that was revoked before stays as it is. $1 namespaces it may be of; $2 id; $3 by whom.
-- Index: primary key.
UPDATE rota.api_keys
   SET revoked_at = coalesce(revoked_at, now()), revoked_by = coalesce(revoked_by, $3)
 WHERE id = $2 AND namespace = ANY ($1::text[]) AND kind = 'key'
RETURNING id, namespace, name, prefix, owner, grants::text AS grants, scopes, created_at, created_by, expires_at, revoked_at,
          revoked_by, last_used_at, expires_at <= now() AS expired
