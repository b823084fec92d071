-- All rules, and whether each has alerts that are not resolved.
-- Index: none: a small table; the primary key of alert_states.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.namespace, r.name, r.kind, r.enabled, r.settings, r.revision, r.error, o.open, clock_timestamp() AS moment
  FROM rota.alert_rules AS r
 CROSS JOIN LATERAL (
       SELECT EXISTS (SELECT FROM rota.alert_states AS s
                       WHERE s.rule_namespace = r.namespace AND s.rule = r.name AND s.phase <> 'resolved' OFFSET 0) AS open
       ) AS o
 ORDER BY r.namespace, r.name
