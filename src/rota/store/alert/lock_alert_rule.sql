-- Locks a rule, if neither it nor its alerts have changed since it was read (`revision`; null: whatever has changed).
-- Index: primary key.
-- Locks: the rule's row, FOR UPDATE.
SELECT namespace, name, kind, enabled, settings FROM rota.alert_rules
 WHERE namespace = :namespace AND name = :name AND (:revision::bigint IS NULL OR revision = :revision)
   FOR UPDATE
