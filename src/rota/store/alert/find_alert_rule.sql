-- A rule.
-- Index: primary key.
-- Locks: none
SELECT namespace, name, kind, enabled, settings, error, error_at, changed_by, changed_at
  FROM rota.alert_rules WHERE namespace = :namespace AND name = :name
