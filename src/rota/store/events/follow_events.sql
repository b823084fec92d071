-- Events of all namespaces after a number, in order, and how far transactions are: none before `oldest` is under way
-- any more, none from `next` on had begun. One row without an event when there is none.
-- Index: primary key.
-- Locks: none
SELECT e.id, e.namespace, e.owner, e.at, e.kind, e.subject, e.detail, e.data, e.is_copy,
       pg_snapshot_xmin(s.snapshot)::text::bigint AS oldest, pg_snapshot_xmax(s.snapshot)::text::bigint AS next
  FROM (SELECT pg_current_snapshot() AS snapshot) AS s
  LEFT JOIN LATERAL (
       SELECT * FROM rota.events WHERE id > :after ORDER BY id LIMIT :limit
       ) AS e ON true
 ORDER BY e.id
