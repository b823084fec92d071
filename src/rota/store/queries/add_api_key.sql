-- Keeps a key or a session. $1 id; $2 kind; $3 namespace; $4 name; $5 prefix; $6 hash; $7 owner; $8 grants; $9 scopes;
-- $10 identity; $11 parent; $12 authority; $13 by whom; $14 expires at.
INSERT INTO rota.api_keys (id, kind, namespace, name, prefix, hash, owner, grants, scopes, identity, parent, authority,
                           created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb, $9, $10, $11, $12, $13, $14)
RETURNING created_at
