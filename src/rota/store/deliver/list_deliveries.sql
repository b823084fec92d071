-- Deliveries to a destination, of events before a number, latest first.
-- Index: primary key, primary key of events.
-- Locks: none
SELECT p.event_id, p.made_at, p.attempts, p.next_at, p.tried_at, p.answer, p.error, p.ended_at, p.is_delivered,
       e.kind, e.subject
  FROM rota.deliveries AS p
  LEFT JOIN rota.events AS e ON e.id = p.event_id
 WHERE p.destination_id = :destination_id AND p.event_id < :before
 ORDER BY p.event_id DESC LIMIT :limit
