-- Adds a silence, unless the namespace has `most` already; removes those that have ended.
-- Index: primary key.
-- Locks: the rows it removes.
WITH ended AS (
    DELETE FROM rota.alert_silences WHERE namespace = :namespace AND until <= now()
)
INSERT INTO rota.alert_silences (namespace, id, rule, key, until, reason, created_by)
SELECT :namespace, :id, :rule::text, :key::text, :until, :reason, :created_by
 WHERE (SELECT count(*) FROM rota.alert_silences AS o WHERE o.namespace = :namespace AND o.until > now()) < :most
RETURNING namespace, id, rule, key, until, reason, created_by, created_at
