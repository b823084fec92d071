-- Writes why a rule could not be evaluated, or that it was (null), if that is new.
-- Index: primary key.
-- Locks: the rule's row.
UPDATE rota.alert_rules SET error = :error::text, error_at = CASE WHEN :error::text IS NOT NULL THEN now() END
 WHERE namespace = :namespace AND name = :name AND error IS DISTINCT FROM :error::text
