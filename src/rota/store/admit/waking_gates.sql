-- Gates whose moment has come: a token is there, a breaker's time is over, or it closed and many wait.
-- Index: gates_waking.
-- Locks: none
SELECT namespace, kind, key, state FROM rota.gates WHERE wakes_at <= now() ORDER BY wakes_at LIMIT :limit
