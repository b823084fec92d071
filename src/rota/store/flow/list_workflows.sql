-- Workflows by name, of an owner or all. Those behind the first :bytes of definitions come without theirs: they are for
-- the next page.
-- Index: workflows_by_name.
-- Locks: none
SELECT w.*, CASE WHEN w.bytes - octet_length(v.definition) < :bytes THEN v.definition END AS definition
  FROM (SELECT w.*, v.number, sum(octet_length(v.definition)) OVER (ORDER BY w.name) AS bytes
          FROM rota.workflows AS w
          JOIN rota.workflow_versions AS v
            ON v.namespace = w.namespace AND v.workflow_id = w.id AND v.version = w.version
         WHERE w.namespace = :namespace AND w.state <> 'deleted' AND w.name > :after
           AND (:owner::text IS NULL OR w.owner = :owner)
         ORDER BY w.name
         LIMIT :limit) AS w
  JOIN rota.workflow_versions AS v ON v.namespace = w.namespace AND v.workflow_id = w.id AND v.version = w.version
 ORDER BY w.name
