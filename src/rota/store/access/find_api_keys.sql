-- Keys and sessions that are in force, by their hashes.
-- Index: api_keys_hash_key; the primary key for the key that a session was made of.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT k.hash, k.id, k.owner, k.grants::text AS grants, k.scopes, k.identity, k.authority, k.parent,
       least(k.expires_at, p.expires_at) AS expires_at,
       k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute' AS unused
  FROM unnest(:hashes::bytea[]) AS i (hash)
 CROSS JOIN LATERAL (SELECT * FROM rota.api_keys AS k WHERE k.hash = i.hash AND k.revoked_at IS NULL OFFSET 0) AS k
  LEFT JOIN LATERAL (SELECT * FROM rota.api_keys AS p WHERE p.id = k.parent OFFSET 0) AS p ON true
 WHERE p.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
   AND (p.expires_at IS NULL OR p.expires_at > now())
