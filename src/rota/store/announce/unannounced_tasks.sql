-- Tasks that a live worker of these namespaces knows and has not described: workers of older releases don't.
-- Index: none: a small table.
-- Locks: none
SELECT n.namespace, array_agg(DISTINCT t.task) AS tasks
  FROM rota.workers AS w, unnest(w.namespaces) AS n (namespace), unnest(w.tasks) AS t (task)
 WHERE w.gone_at IS NULL AND n.namespace = ANY (:namespaces::text[])
   AND NOT EXISTS (SELECT FROM rota.announced_tasks AS a
                    WHERE a.namespace = w.app_namespace AND a.app = w.app AND a.version = w.app_version
                      AND a.digest = w.announced)
 GROUP BY n.namespace
