-- The workers whose beats are watched. Reads the whole table: it has a row per worker, and old ones are swept.
SELECT id, beat, lease FROM rota.workers WHERE gone_at IS NULL
