-- Registers a worker under a new random id, and gives back its lanes, by namespace and pool. $1 id; $2 host; $3 pid; $4 namespaces; $5 pools;
-- $6 tasks; $7 slots; $8 lease. A lane is hashed by the database alone.
WITH registered AS (
    INSERT INTO rota.workers (id, host, pid, namespaces, pools, tasks, slots, lease)
    VALUES ($1, $2, $3, $4::text[], $5::text[], $6::text[], $7, $8)
)
SELECT namespace, pool, rota.lane_of(namespace, pool, task, priority::smallint) AS lane
  FROM unnest($4::text[]) AS namespace, unnest($5::text[]) AS pool, unnest($6::text[]) AS task,
       generate_series(-1, 2) AS priority
