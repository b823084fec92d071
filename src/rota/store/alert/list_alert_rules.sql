-- Rules of a namespace and of the installation ('*'), by name; those after `after`, if it is given.
-- Index: primary key.
-- Locks: none
SELECT namespace, name, kind, enabled, settings, error, error_at, changed_by, changed_at
  FROM rota.alert_rules
 WHERE namespace = ANY (:namespaces::text[]) AND (:after::text IS NULL OR name || ' ' || namespace > :after)
 ORDER BY name || ' ' || namespace
 LIMIT :limit
