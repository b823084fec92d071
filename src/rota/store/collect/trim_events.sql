-- Removes events of a namespace that are older than so many days, at most `limit` of its oldest.
-- Index: events_of_namespace.
-- Locks: the rows it deletes.
WITH old AS MATERIALIZED (
    SELECT e.id FROM (SELECT e.id, e.at FROM rota.events AS e WHERE e.namespace = :namespace ORDER BY e.id LIMIT :limit) AS e
     WHERE e.at < now() - make_interval(days => :days::integer)
)
DELETE FROM rota.events AS e WHERE e.id = ANY (ARRAY(SELECT id FROM old)) RETURNING e.id
