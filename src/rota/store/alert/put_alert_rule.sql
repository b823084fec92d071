-- Creates a rule or replaces it, unless the namespace has `most` others already. Its alerts stay as they are.
-- Index: primary key.
-- Locks: the rule's row.
INSERT INTO rota.alert_rules AS r (namespace, name, kind, enabled, settings, changed_by)
SELECT :namespace::text, :name::text, :kind::text, :enabled::boolean, :settings::text, :changed_by::text
 WHERE (SELECT count(*) FROM rota.alert_rules AS o WHERE o.namespace = :namespace AND o.name <> :name) < :most
ON CONFLICT (namespace, name) DO UPDATE
   SET kind = excluded.kind, enabled = excluded.enabled, settings = excluded.settings, revision = r.revision + 1,
       error = NULL, error_at = NULL, changed_by = excluded.changed_by, changed_at = now()
RETURNING r.namespace, r.name, r.kind, r.enabled, r.settings, r.error, r.error_at, r.changed_by, r.changed_at
