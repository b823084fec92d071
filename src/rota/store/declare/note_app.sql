-- An application's version is applied. :namespace namespace; :app name; :version version; :schedules its schedules. Index: primary key.
UPDATE rota.apps SET version = :version, schedules = :schedules::jsonb, changed_at = now() WHERE namespace = :namespace AND app = :app
