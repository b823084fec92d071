-- Makes a destination that gets events from now on. No row back: there is one of this name, or the namespace has as many
-- as it may have.
-- Index: destinations_named, primary key of events.
-- Locks: none
INSERT INTO rota.destinations (id, namespace, name, kind, shown, sealed, kinds, least_severity, enabled, changed_by,
                               position)
SELECT :destination_id::uuid, :namespace::text, :name::text, :kind, :shown, :sealed::bytea, :kinds::text[],
       :least_severity, :enabled, :changed_by, coalesce((SELECT max(e.id) FROM rota.events AS e), 0)
 WHERE (SELECT count(*) FROM rota.destinations AS d WHERE d.namespace = :namespace) < :most
ON CONFLICT (namespace, name) DO NOTHING
RETURNING *
