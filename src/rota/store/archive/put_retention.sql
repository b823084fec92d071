-- Sets the retention policy of a namespace.
-- Index: primary key.
-- Locks: the row.
INSERT INTO rota.retention AS r (namespace, policy, changed_by) VALUES (:namespace, :policy::text::jsonb, :changed_by)
    ON CONFLICT (namespace) DO UPDATE
   SET policy = excluded.policy, changed_by = excluded.changed_by, changed_at = now()
RETURNING r.policy::text AS policy, r.changed_by, r.changed_at
