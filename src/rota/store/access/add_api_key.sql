-- Keeps a key or a session. :id id; :kind kind; :namespace namespace; :name name; :prefix prefix; :hash hash; :owner owner; :grants grants; :scopes scopes;
-- :identity identity; :parent parent; :authority authority; :created_by by whom; :expires_at expires at.
INSERT INTO rota.api_keys (id, kind, namespace, name, prefix, hash, owner, grants, scopes, identity, parent, authority,
                           created_by, expires_at)
VALUES (:id, :kind, :namespace, :name, :prefix, :hash, :owner, :grants::text::jsonb, :scopes, :identity, :parent, :authority, :created_by, :expires_at)
RETURNING created_at
