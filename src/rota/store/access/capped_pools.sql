-- Pools in which only so much may wait.
-- Index: none: a small table.
-- Locks: none
SELECT namespace, pool, most_waiting FROM rota.pools WHERE most_waiting IS NOT NULL
