-- Registers a worker under a new random id, and gives back its lanes, by namespace and pool. :worker_id id; :host host; :pid pid; :namespaces namespaces; :pools pools;
-- :tasks tasks; :slots slots; :lease lease; :app_namespace the namespace, :app the name and :version the version of its application, and :schedules the schedules this
-- declares (null: none), :release the numbers of the version (null: it is none). A lane is hashed by the database alone.
WITH registered AS (
    INSERT INTO rota.workers (id, host, pid, namespaces, pools, tasks, slots, lease, app_namespace, app, app_version)
    VALUES (:worker_id, :host, :pid, :namespaces::text[], :pools::text[], :tasks::text[], :slots, :lease, :app_namespace::text, :app::text, :version::text)
), declared AS (
    INSERT INTO rota.app_versions AS v (namespace, app, version, schedules, release)
    SELECT :app_namespace::text, :app::text, :version::text, :schedules::jsonb, :release::bigint[] WHERE :schedules::text IS NOT NULL
    ON CONFLICT (namespace, app, version) DO UPDATE SET schedules = excluded.schedules
     WHERE v.schedules <> excluded.schedules
)
SELECT namespace, pool, rota.lane_of(namespace, pool, task, priority::smallint) AS lane
  FROM unnest(:namespaces::text[]) AS namespace, unnest(:pools::text[]) AS pool, unnest(:tasks::text[]) AS task,
       generate_series(-1, 2) AS priority
