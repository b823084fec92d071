-- Audit entries with ids in [first, before), latest first. Filters: null for any.
-- Index: audit_of_namespace, walked backwards; the primary key of audit_outcomes.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT a.id, a.at, a.namespace, a.actor, a.kind, a.key_id, a.source, a.action, coalesce(a.object, o.object) AS object,
       a.request::text AS request, o.status, o.change::text AS change
  FROM rota.audit AS a
  LEFT JOIN LATERAL (SELECT * FROM rota.audit_outcomes AS o WHERE o.id = a.id OFFSET 0) AS o ON true
 WHERE a.namespace = :namespace AND a.id >= :first AND a.id < :before
   AND (:actor::text IS NULL OR a.actor = :actor) AND (:action::text IS NULL OR a.action = :action)
   AND (:object::text IS NULL OR coalesce(a.object, o.object) = :object)
 ORDER BY a.id DESC
 LIMIT :limit
