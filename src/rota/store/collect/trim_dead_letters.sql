-- Removes dead letters of a namespace whose runs are older than an id and that were buried as long ago, at most `limit`.
-- Index: primary key.
-- Locks: the rows it deletes.
WITH old AS MATERIALIZED (
    SELECT d.run_id FROM rota.dead_letters AS d
     WHERE d.namespace = :namespace AND d.run_id < :before AND d.buried_at < now() - make_interval(days => :days::integer)
     ORDER BY d.run_id LIMIT :limit
)
DELETE FROM rota.dead_letters AS d
 WHERE d.namespace = :namespace AND d.run_id = ANY (ARRAY(SELECT run_id FROM old))
RETURNING d.run_id
