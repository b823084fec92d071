-- An application's version is applied.
-- Index: primary key.
-- Locks: the application's row.
UPDATE rota.apps SET version = :version, schedules = :schedules::jsonb, workflows = :workflows::jsonb, changed_at = now()
 WHERE namespace = :namespace AND app = :app
