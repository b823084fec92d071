-- Which announcements count in these namespaces, those in force first.
-- Index: none: small tables.
-- Locks: none
SELECT namespace, app_namespace, app, version, digest, live FROM rota.announcements_of(:namespaces::text[])
