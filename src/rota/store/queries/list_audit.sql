-- Who did what, latest first. $1 namespace; ids in [$2, $3); filters, null for any: $4 actor, $5 action, $6 object; $7 limit.
-- Index: audit_of_namespace, walked backwards; the primary key of audit_outcomes.
SELECT a.id, a.at, a.namespace, a.actor, a.kind, a.key_id, a.source, a.action, coalesce(a.object, o.object) AS object,
       a.request::text AS request, o.status, o.change::text AS change
  FROM rota.audit AS a
  LEFT JOIN LATERAL (SELECT * FROM rota.audit_outcomes AS o WHERE o.id = a.id OFFSET 0) AS o ON true
 WHERE a.namespace = $1 AND a.id >= $2 AND a.id < $3
   AND ($4::text IS NULL OR a.actor = $4) AND ($5::text IS NULL OR a.action = $5)
   AND ($6::text IS NULL OR coalesce(a.object, o.object) = $6)
 ORDER BY a.id DESC
 LIMIT $7
