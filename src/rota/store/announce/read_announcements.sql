-- Announced tasks, by their keys.
-- Index: primary key.
-- Locks: none
SELECT a.namespace, a.app, a.version, a.digest, a.tasks::text AS tasks
  FROM unnest(:namespaces::text[], :apps::text[], :versions::text[], :digests::text[]) AS k (namespace, app, version, digest)
  JOIN rota.announced_tasks AS a
    ON a.namespace = k.namespace AND a.app = k.app AND a.version = k.version AND a.digest = k.digest
