-- Gives a destination these events and moves its position, if that is still where it was read: each event once.
-- Index: primary keys.
-- Locks: the destination.
WITH moved AS (
    UPDATE rota.destinations SET position = :position
     WHERE id = :destination_id AND position = :read_at AND enabled RETURNING id
)
INSERT INTO rota.deliveries (destination_id, event_id)
SELECT m.id, i.event_id FROM moved AS m CROSS JOIN unnest(:event_ids::bigint[]) AS i (event_id)
ON CONFLICT (destination_id, event_id) DO NOTHING
RETURNING event_id
