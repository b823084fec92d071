-- An application's version is applied. $1 namespace; $2 name; $3 version; $4 its schedules. Index: primary key.
UPDATE rota.apps SET version = $3, schedules = $4::jsonb, changed_at = now() WHERE namespace = $1 AND app = $2
