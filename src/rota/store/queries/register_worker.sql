-- Registers a worker under a new random id, and gives back its lanes, by namespace and pool. $1 id; $2 host; $3 pid; $4 namespaces; $5 pools;
-- $6 tasks; $7 slots; $8 lease; $9 the namespace, $10 the name and $11 the version of its application, and $12 the schedules this
-- declares (null: none), $13 the numbers of the version (null: it is none). A lane is hashed by the database alone.
WITH registered AS (
    INSERT INTO rota.workers (id, host, pid, namespaces, pools, tasks, slots, lease, app_namespace, app, app_version)
    VALUES ($1, $2, $3, $4::text[], $5::text[], $6::text[], $7, $8, $9::text, $10::text, $11::text)
), declared AS (
    INSERT INTO rota.app_versions AS v (namespace, app, version, schedules, release)
    SELECT $9::text, $10::text, $11::text, $12::jsonb, $13::bigint[] WHERE $12::text IS NOT NULL
    ON CONFLICT (namespace, app, version) DO UPDATE SET schedules = excluded.schedules
     WHERE v.schedules <> excluded.schedules
)
SELECT namespace, pool, rota.lane_of(namespace, pool, task, priority::smallint) AS lane
  FROM unnest($4::text[]) AS namespace, unnest($5::text[]) AS pool, unnest($6::text[]) AS task,
       generate_series(-1, 2) AS priority
