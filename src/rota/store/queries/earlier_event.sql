-- The number of the latest event that is older than $1, where followers begin to look. Index: events_oldest.
SELECT id FROM rota.events WHERE at < now() - $1::interval ORDER BY at DESC LIMIT 1
