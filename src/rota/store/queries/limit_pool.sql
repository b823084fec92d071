-- Says how many runs may wait in a pool. $1 namespace; $2 pool; $3 how many (null: any number). Index: primary key.
INSERT INTO rota.pools (namespace, pool, most_waiting) VALUES ($1, $2, $3)
ON CONFLICT (namespace, pool) DO UPDATE SET most_waiting = excluded.most_waiting
