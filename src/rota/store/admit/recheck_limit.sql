-- Has a limit looked at once more: it has room, and more wait than were looked at.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.departures (namespace, run_id, job_id, policies)
SELECT :namespace::text, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000',
       jsonb_build_object('limit', :key::text)
