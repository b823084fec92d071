-- The number of the latest event that is older than this, where followers begin to look.
-- Index: events_oldest.
-- Locks: none
SELECT id FROM rota.events WHERE at < now() - :age::interval ORDER BY at DESC LIMIT 1
