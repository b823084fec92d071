-- Records how it ended; `object` where it was made by it.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.audit_outcomes (id, status, object, change) VALUES (:id, :status, :object, :change::text::jsonb)
