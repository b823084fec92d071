-- Discards dead letters; the failed runs stay in history. $1 namespace; $2 run ids, in order. Index: primary key.
DELETE FROM rota.dead_letters AS d USING unnest($2::uuid[]) AS i (id)
 WHERE d.namespace = $1 AND d.run_id = i.id
RETURNING d.run_id
