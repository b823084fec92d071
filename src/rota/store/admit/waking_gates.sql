-- Gates whose moment has come: a token is there, a breaker's time is over, or it closed and many wait. :limit at most this many.
-- Index: gates_waking.
SELECT namespace, kind, key, state FROM rota.gates WHERE wakes_at <= now() ORDER BY wakes_at LIMIT :limit
