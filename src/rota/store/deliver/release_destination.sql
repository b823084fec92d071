-- A sender is done with a destination for now: nothing more is sent for `delay` seconds. One that answers again after
-- failures gets everything that waits at once. Of deliveries that are over, the latest are kept.
-- Index: primary key of deliveries, deliveries_pending.
-- Locks: the destination, its deliveries.
WITH released AS (
    UPDATE rota.destinations
       SET leased_until = NULL, failures = :failures, next_at = clock_timestamp() + make_interval(secs => :delay)
     WHERE id = :destination_id AND lease = :lease RETURNING id
), again AS (
    UPDATE rota.deliveries AS p SET next_at = clock_timestamp() FROM released AS r
     WHERE :has_recovered::boolean AND p.destination_id = r.id AND p.ended_at IS NULL
)
DELETE FROM rota.deliveries AS p USING released AS r
 WHERE p.destination_id = r.id AND p.ended_at IS NOT NULL
   AND p.event_id < (SELECT min(k.event_id) FROM (SELECT i.event_id FROM rota.deliveries AS i
                                                   WHERE i.destination_id = :destination_id
                                                   ORDER BY i.event_id DESC LIMIT :kept) AS k)
RETURNING p.event_id
