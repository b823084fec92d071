-- Records how an attempt to send ended, and extends the sender's claim; no row back: another sender has the destination.
-- `delay` in seconds until the next attempt; null: there is none.
-- Index: primary keys.
-- Locks: the destination, the delivery.
WITH held AS (
    UPDATE rota.destinations SET leased_until = clock_timestamp() + :lease_time::interval
     WHERE id = :destination_id AND lease = :lease RETURNING id
)
UPDATE rota.deliveries AS p
   SET attempts = p.attempts + 1, tried_at = clock_timestamp(), answer = :answer, error = :error,
       is_delivered = :is_delivered,
       next_at = clock_timestamp() + make_interval(secs => coalesce(:delay::float8, 0)),
       ended_at = CASE WHEN :delay IS NULL THEN clock_timestamp() END
  FROM held WHERE p.destination_id = held.id AND p.event_id = :event_id
RETURNING p.event_id
