-- Records what happened to something other than a run. $1 namespaces; $2 kinds; $3 subjects; $4 details.
INSERT INTO rota.events (namespace, kind, subject, detail)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
