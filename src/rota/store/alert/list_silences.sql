-- Silences of namespaces that have not ended, those that end first first.
-- Index: primary key.
-- Locks: none
SELECT namespace, id, rule, key, until, reason, created_by, created_at FROM rota.alert_silences
 WHERE namespace = ANY (:namespaces::text[]) AND until > now()
 ORDER BY until, id
 LIMIT :limit
