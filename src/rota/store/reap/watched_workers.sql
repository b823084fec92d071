-- The workers whose beats are watched, and those that are gone and not known to hold nothing.
-- Index: none: reads the whole table, which has a row per worker and is swept.
-- Locks: none
SELECT id, beat, lease, gone_at IS NOT NULL AS gone FROM rota.workers WHERE gone_at IS NULL OR NOT reaped
