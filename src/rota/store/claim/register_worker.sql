-- Registers a worker under a new random id, and gives its lanes by namespace and pool (a lane is hashed by the database
-- alone). With its application: the schedules and workflows it declares (null: none) and the numbers of its version
-- (`release`, null: it is not made of numbers); `announced`: the digest of its announced tasks (null: none).
-- Index: primary keys.
-- Locks: the row of the application's version.
WITH registered AS (
    INSERT INTO rota.workers (id, host, pid, namespaces, pools, tasks, slots, lease, app_namespace, app, app_version,
                              announced)
    VALUES (:worker_id, :host, :pid, :namespaces::text[], :pools::text[], :tasks::text[], :slots, :lease,
            :app_namespace::text, :app::text, :version::text, :announced::text)
), declared AS (
    INSERT INTO rota.app_versions AS v (namespace, app, version, schedules, release, workflows)
    SELECT :app_namespace::text, :app::text, :version::text, :schedules::jsonb, :release::bigint[], :workflows::jsonb
     WHERE :schedules::text IS NOT NULL
    ON CONFLICT (namespace, app, version) DO UPDATE SET schedules = excluded.schedules, workflows = excluded.workflows
     WHERE v.schedules <> excluded.schedules OR v.workflows IS DISTINCT FROM excluded.workflows
)
SELECT namespace, pool, rota.lane_of(namespace, pool, task, priority::smallint) AS lane
  FROM unnest(:namespaces::text[]) AS namespace, unnest(:pools::text[]) AS pool, unnest(:tasks::text[]) AS task,
       generate_series(-1, 2) AS priority
