-- Notes how it ended. $1 id; $2 status of the answer; $3 object, if it was made by it; $4 change.
INSERT INTO rota.audit_outcomes (id, status, object, change) VALUES ($1, $2, $3, $4::text::jsonb)
