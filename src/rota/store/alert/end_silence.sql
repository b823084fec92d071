-- Ends a silence.
-- Index: primary key.
-- Locks: its row.
DELETE FROM rota.alert_silences WHERE namespace = :namespace AND id = :id
RETURNING namespace, id, rule, key, until, reason, created_by, created_at
