-- Records what is asked for, before it is done.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.audit (id, namespace, actor, kind, key_id, source, action, object, request)
VALUES (:id, :namespace, :actor, :kind, :key_id, :source, :action, :object, :request::text::jsonb)
