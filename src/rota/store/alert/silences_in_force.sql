-- Silences that have not ended and may concern a rule of this name.
-- Index: none: a small table.
-- Locks: none
SELECT namespace, rule, key FROM rota.alert_silences WHERE until > now() AND (rule IS NULL OR rule = :rule)
