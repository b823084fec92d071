-- Which version of each application is in force: the newest that has a worker, or had one that was lost within
-- `patience`; null when none has had any for that long. Only those that are not applied yet, of this namespace and
-- application (null: any). A version of which only lost workers are left stays in force, but does not come into force:
-- its schedules would come back when the version that replaced it stops for a moment.
-- Index: none: small tables.
-- Locks: none
WITH present AS (
    SELECT w.app_namespace AS namespace, w.app, w.app_version AS version, bool_or(w.gone_at IS NULL) AS live,
           bool_or(w.gone_at IS NULL OR w.gone_why <> 'stopped' AND w.gone_at > now() - :patience::interval) AS rules,
           bool_or(w.gone_at IS NULL OR w.gone_at > now() - :patience::interval) AS recent
      FROM rota.workers AS w
     WHERE w.app IS NOT NULL
     GROUP BY 1, 2, 3
), known AS (
    SELECT DISTINCT v.namespace, v.app FROM rota.app_versions AS v
     WHERE (:namespace::text IS NULL OR v.namespace = :namespace) AND (:app::text IS NULL OR v.app = :app)
), ruling AS (
    SELECT k.namespace, k.app, v.version, v.schedules, v.workflows, v.live,
           EXISTS (SELECT FROM present AS p WHERE p.namespace = k.namespace AND p.app = k.app AND p.recent) AS recent
      FROM known AS k
      LEFT JOIN LATERAL (
           SELECT v.version, v.schedules, v.workflows, p.live
             FROM rota.app_versions AS v
             JOIN present AS p ON p.namespace = v.namespace AND p.app = v.app AND p.version = v.version AND p.rules
            WHERE v.namespace = k.namespace AND v.app = k.app
            ORDER BY v.release DESC NULLS LAST, v.number DESC LIMIT 1) AS v ON true
)
SELECT r.namespace, r.app, r.version, r.schedules, r.workflows
  FROM ruling AS r
  LEFT JOIN rota.apps AS a ON a.namespace = r.namespace AND a.app = r.app
 WHERE (r.live OR r.version IS NULL AND NOT r.recent)
   AND (a.version IS DISTINCT FROM r.version OR a.schedules IS DISTINCT FROM r.schedules
        OR a.workflows IS DISTINCT FROM r.workflows)
