-- Deletes a rule, with its alerts.
-- Index: primary key.
-- Locks: the rule's row, and those of its alerts.
DELETE FROM rota.alert_rules WHERE namespace = :namespace AND name = :name
