-- What is to be sent to a destination now, in the order of events; an event that is gone has no kind.
-- Index: deliveries_pending, primary key of events.
-- Locks: none
SELECT p.event_id, p.attempts, extract(epoch FROM clock_timestamp() - p.made_at)::float8 AS age,
       p.event_id AS id, e.namespace, e.at, e.kind, e.subject, e.detail, e.data
  FROM rota.deliveries AS p
  LEFT JOIN rota.events AS e ON e.id = p.event_id
 WHERE p.destination_id = :destination_id AND p.ended_at IS NULL AND p.next_at <= clock_timestamp()
 ORDER BY p.event_id LIMIT :limit
