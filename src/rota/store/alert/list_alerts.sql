-- Alerts of namespaces, those that began last first: in these phases, of this owner or of any (null).
-- Index: alert_states_of_namespace.
-- Locks: none
SELECT s.rule_namespace, s.rule, s.namespace, s.key, s.kind, s.phase, s.severity, s.subject, s.title, s.act, s.value,
       s.threshold, s.job_id, s.owner, s.since, s.fired_at, s.resolved_at, q.until AS silenced_until
  FROM rota.alert_states AS s
  LEFT JOIN LATERAL (
       SELECT max(q.until) AS until FROM rota.alert_silences AS q
        WHERE q.namespace IN (s.namespace, '*') AND q.until > now()
          AND coalesce(q.rule, s.rule) = s.rule AND coalesce(q.key, s.key) = s.key
       ) AS q ON true
 WHERE s.namespace = ANY (:namespaces::text[]) AND s.phase = ANY (:phases::text[])
   AND (:owner::text IS NULL OR s.owner = :owner)
 ORDER BY s.phase = 'resolved', s.since DESC, s.rule, s.namespace, s.key
 LIMIT :limit
