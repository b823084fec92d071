-- Sets how many runs may wait in a pool; null: any number.
-- Index: primary key.
-- Locks: the pool's row.
INSERT INTO rota.pools (namespace, pool, most_waiting) VALUES (:namespace, :pool, :most_waiting)
ON CONFLICT (namespace, pool) DO UPDATE SET most_waiting = excluded.most_waiting
