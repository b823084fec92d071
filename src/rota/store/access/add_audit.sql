-- Notes what somebody asks for, before it is done. :id id; :namespace namespace; :actor actor; :kind kind of identity; :key_id key; :source from where;
-- :action action; :object object; :request request.
INSERT INTO rota.audit (id, namespace, actor, kind, key_id, source, action, object, request)
VALUES (:id, :namespace, :actor, :kind, :key_id, :source, :action, :object, :request::text::jsonb)
