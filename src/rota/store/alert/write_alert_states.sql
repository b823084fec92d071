-- Writes how alerts of a rule stand.
-- Index: primary key.
-- Locks: their rows; the caller has locked the rule.
INSERT INTO rota.alert_states (rule_namespace, rule, namespace, key, kind, phase, severity, subject, title, act, value,
                               threshold, job_id, owner, since, good_since, fired_at, resolved_at, told)
SELECT :rule_namespace, :rule, i.namespace, i.key, :kind, i.phase, :severity, i.subject, i.title, i.act, i.value,
       i.threshold, i.job_id, i.owner, i.since, i.good_since, i.fired_at, i.resolved_at, i.told
  FROM unnest(:namespaces::text[], :keys::text[], :phases::text[], :subjects::text[], :titles::text[], :acts::text[],
              :values::float8[], :thresholds::float8[], :job_ids::uuid[], :owners::text[], :since::timestamptz[],
              :good_since::timestamptz[], :fired_at::timestamptz[], :resolved_at::timestamptz[], :told::boolean[])
       AS i (namespace, key, phase, subject, title, act, value, threshold, job_id, owner, since, good_since, fired_at,
             resolved_at, told)
ON CONFLICT (rule_namespace, rule, namespace, key) DO UPDATE
   SET kind = excluded.kind, phase = excluded.phase, severity = excluded.severity, subject = excluded.subject,
       title = excluded.title, act = excluded.act, value = excluded.value, threshold = excluded.threshold,
       job_id = excluded.job_id, owner = excluded.owner, since = excluded.since, good_since = excluded.good_since,
       fired_at = excluded.fired_at, resolved_at = excluded.resolved_at, told = excluded.told
