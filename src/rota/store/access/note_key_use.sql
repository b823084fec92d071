-- Notes that keys were used just now. :ids ids, in order. Index: primary key.
UPDATE rota.api_keys SET last_used_at = now() WHERE id = ANY (:ids::uuid[])
