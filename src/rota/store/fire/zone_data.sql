-- With which zone data the stored times were computed last; null: not known.
-- Index: none: one row.
-- Locks: none
SELECT zone_data FROM rota.constants
