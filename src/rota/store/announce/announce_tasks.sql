-- Stores the tasks of a release (a JSON object by name). Of several workers that do so at once, one writes.
-- Index: primary key.
-- Locks: the row.
INSERT INTO rota.announced_tasks (namespace, app, version, digest, release, tasks)
VALUES (:namespace, :app, :version, :digest, :release::bigint[], :tasks::json)
ON CONFLICT (namespace, app, version, digest) DO UPDATE SET seen_at = now()
