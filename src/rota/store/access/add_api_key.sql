-- Keeps a key or a session.
-- Index: primary key, api_keys_hash_key.
-- Locks: none
INSERT INTO rota.api_keys (id, kind, namespace, name, prefix, hash, owner, grants, scopes, identity, parent, authority,
                           created_by, expires_at)
VALUES (:id, :kind, :namespace, :name, :prefix, :hash, :owner, :grants::text::jsonb, :scopes, :identity, :parent,
        :authority, :created_by, :expires_at)
RETURNING created_at
