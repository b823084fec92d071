-- The workflows that an application's code declares or declared; without an id: it was deleted since. Not locked: whoever
-- changes one compares its revision.
-- Index: primary keys.
-- Locks: none
SELECT d.name AS declared_name, d.declared, d.paused_by_app, d.version AS app_version, w.*
  FROM rota.declared_workflows AS d
  LEFT JOIN rota.workflows AS w ON w.namespace = d.namespace AND w.id = d.workflow_id AND w.state <> 'deleted'
 WHERE d.namespace = :namespace AND d.app = :app
