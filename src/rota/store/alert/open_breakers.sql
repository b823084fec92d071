-- Breakers that are not closed.
-- Index: gates_open.
-- Locks: none
SELECT g.namespace, g.key, g.failures, g.until FROM rota.gates AS g
 WHERE g.kind = 'breaker' AND g.state <> 'closed'
 ORDER BY g.namespace, g.key
 LIMIT :most
