-- How the alerts of a rule stand.
-- Index: primary key.
-- Locks: none: the caller has locked the rule.
SELECT * FROM rota.alert_states WHERE rule_namespace = :namespace AND rule = :name
