-- Forgets alerts of a rule that were pending and did not fire.
-- Index: primary key.
-- Locks: their rows; the caller has locked the rule.
DELETE FROM rota.alert_states AS s
 USING unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
 WHERE s.rule_namespace = :rule_namespace AND s.rule = :rule AND s.namespace = i.namespace AND s.key = i.key
