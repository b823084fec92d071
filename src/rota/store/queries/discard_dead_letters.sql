-- Discards dead letters; the failed runs stay in history. $1 namespace; $2 run ids. Index: primary key, in its order.
DELETE FROM rota.dead_letters AS d WHERE d.namespace = $1 AND d.run_id = ANY ($2::uuid[]) RETURNING d.run_id
