-- Events of all namespaces with numbers in (after, until], in order.
-- Index: primary key of events.
-- Locks: none
SELECT id, namespace, kind, data, is_copy FROM rota.events WHERE id > :after AND id <= :until ORDER BY id LIMIT :limit
