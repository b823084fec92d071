-- Writes archived rows into tables beside history; see the function.
-- Index: none
-- Locks: none that others wait for.
SELECT rota.restore_rows(:period, :parent, :records::text::jsonb)
