-- Changes a destination that is locked. One that is enabled again gets events from now on. What failed before is tried
-- again at once.
-- Index: primary key, deliveries_pending.
-- Locks: the destination, its deliveries.
WITH again AS (
    UPDATE rota.deliveries SET next_at = now() WHERE destination_id = :destination_id AND ended_at IS NULL
)
UPDATE rota.destinations AS d
   SET kind = :kind, shown = :shown, sealed = :sealed, kinds = :kinds::text[], least_severity = :least_severity,
       enabled = :enabled::boolean, changed_by = :changed_by, changed_at = now(), failures = 0, next_at = now(),
       position = CASE WHEN :enabled AND NOT d.enabled
                       THEN greatest(d.position, (SELECT max(e.id) FROM rota.events AS e)) ELSE d.position END
 WHERE d.id = :destination_id
RETURNING *
