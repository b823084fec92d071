-- Notes what somebody asks for, before it is done. $1 id; $2 namespace; $3 actor; $4 kind of identity; $5 key; $6 from where;
-- $7 action; $8 object; $9 request.
INSERT INTO rota.audit (id, namespace, actor, kind, key_id, source, action, object, request)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)
