-- Writes which workflow an application's code declares by a name, what it says of it (null: nothing any more), and which
-- version said so.
-- Index: primary key.
-- Locks: the declaration's row.
INSERT INTO rota.declared_workflows AS d (namespace, app, name, workflow_id, declared, version, paused_by_app)
VALUES (:namespace, :app, :name, :workflow_id, coalesce(:declared::text, ''), :version, :declared::text IS NULL)
ON CONFLICT (namespace, app, name) DO UPDATE
   SET workflow_id = excluded.workflow_id, declared = coalesce(:declared::text, d.declared), version = excluded.version,
       paused_by_app = excluded.paused_by_app
