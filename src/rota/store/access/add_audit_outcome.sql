-- Notes how it ended. :id id; :status status of the answer; :object object, if it was made by it; :change change.
INSERT INTO rota.audit_outcomes (id, status, object, change) VALUES (:id, :status, :object, :change::text::jsonb)
