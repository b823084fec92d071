-- The alerts of a rule have changed: what was measured before does not count any more.
-- Index: primary key.
-- Locks: the rule's row.
UPDATE rota.alert_rules SET revision = revision + 1 WHERE namespace = :namespace AND name = :name
