-- Discards dead letters; the failed runs stay in history.
-- Index: primary key, in its order.
-- Locks: the dead letters.
-- Idioms: by_id.
DELETE FROM rota.dead_letters AS d WHERE rota.by_id(d.namespace) = :namespace AND d.run_id = ANY (:run_ids::uuid[])
RETURNING d.run_id
