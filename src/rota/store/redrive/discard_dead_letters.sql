-- Discards dead letters; the failed runs stay in history. :namespace namespace; :run_ids run ids. Index: primary key, in its order.
DELETE FROM rota.dead_letters AS d WHERE rota.by_id(d.namespace) = :namespace AND d.run_id = ANY (:run_ids::uuid[]) RETURNING d.run_id
