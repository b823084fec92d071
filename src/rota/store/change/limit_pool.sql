-- Says how many runs may wait in a pool. :namespace namespace; :pool pool; :most_waiting how many (null: any number). Index: primary key.
INSERT INTO rota.pools (namespace, pool, most_waiting) VALUES (:namespace, :pool, :most_waiting)
ON CONFLICT (namespace, pool) DO UPDATE SET most_waiting = excluded.most_waiting
