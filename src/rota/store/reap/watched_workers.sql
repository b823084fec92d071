-- The workers whose beats are watched, and those that are gone and not known to hold nothing.
-- Reads the whole table: it has a row per worker, and old ones are swept.
SELECT id, beat, lease, gone_at IS NOT NULL AS gone FROM rota.workers WHERE gone_at IS NULL OR NOT reaped
