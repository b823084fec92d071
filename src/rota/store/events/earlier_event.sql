-- The number of the latest event that is older than :age, where followers begin to look. Index: events_oldest.
SELECT id FROM rota.events WHERE at < now() - :age::interval ORDER BY at DESC LIMIT 1
