-- Workers announce their tasks: parameters, and options that are defaults of their jobs.

-- The tasks of each release of an application, and what its workers say of them. Kept for a week after the last worker.
CREATE TABLE rota.announced_tasks (
    namespace text COLLATE "C" NOT NULL,
    app       text COLLATE "C" NOT NULL,
    version   text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    release   bigint[],
    tasks     json NOT NULL CHECK (octet_length(tasks::text) <= 2 * 1024 * 1024)
                            CHECK (tasks::jsonb IS NOT NULL),   -- fails for JSON that can't be looked into (\u0000)
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, app, version, digest)
);

ALTER TABLE rota.workers ADD COLUMN announced text COLLATE "C";

-- Which announcements count in these namespaces, in the order in which they do: those of live workers (or lost within ten
-- minutes), the newest of each application first; then, for times without any worker, the three of each application that
-- were seen last. At most 64 in each namespace.
CREATE FUNCTION rota.announcements_of(of_namespaces text[])
RETURNS TABLE (namespace text, app_namespace text, app text, version text, digest text, live boolean, place bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH serving AS (
        SELECT n.namespace, w.app_namespace, w.app, w.app_version AS version, w.announced AS digest,
               bool_or(w.gone_at IS NULL OR w.gone_why <> 'stopped' AND w.gone_at > now() - interval '10 minutes') AS live,
               max(coalesce(w.gone_at, 'infinity')) AS seen_at
          FROM rota.workers AS w, unnest(w.namespaces) AS n (namespace)
         WHERE n.namespace = ANY (of_namespaces) AND w.announced IS NOT NULL
         GROUP BY 1, 2, 3, 4, 5
    ), known AS (
        SELECT s.namespace, s.app_namespace, s.app, s.version, s.digest, s.live, s.seen_at, a.release, a.number
          FROM serving AS s
          JOIN rota.announced_tasks AS a
            ON a.namespace = s.app_namespace AND a.app = s.app AND a.version = s.version AND a.digest = s.digest
         UNION ALL
        SELECT a.namespace, a.namespace, a.app, a.version, a.digest, false, a.seen_at, a.release, a.number
          FROM rota.announced_tasks AS a
         WHERE a.namespace = ANY (of_namespaces)
           AND NOT EXISTS (SELECT FROM serving AS s
                            WHERE s.namespace = a.namespace AND s.app_namespace = a.namespace AND s.app = a.app
                              AND s.version = a.version AND s.digest = a.digest)
    ), ranked AS (
        SELECT k.*, row_number() OVER (PARTITION BY k.namespace, k.app_namespace, k.app, k.live
                                       ORDER BY CASE WHEN NOT k.live THEN k.seen_at END DESC,
                                                k.release DESC NULLS LAST, k.number DESC) AS rank
          FROM known AS k
    ), placed AS (
        SELECT r.*, row_number() OVER (PARTITION BY r.namespace
                                       ORDER BY r.live DESC, CASE WHEN r.live THEN r.rank END,
                                                CASE WHEN NOT r.live THEN r.seen_at END DESC, r.number DESC) AS place
          FROM ranked AS r WHERE r.live OR r.rank <= 3
    )
    SELECT p.namespace, p.app_namespace, p.app, p.version, p.digest, p.live, p.place
      FROM placed AS p WHERE p.place <= 64 ORDER BY p.namespace, p.place
$$;

REVOKE ALL ON FUNCTION rota.announcements_of(text[]) FROM PUBLIC;

-- The announced defaults of these tasks (a JSON array of names) in a namespace: a JSON object by name, for programs that submit in
-- transactions of their own. Says nothing of namespaces that the role is not bound to.
CREATE FUNCTION rota.task_defaults_v1(of_namespace text, names text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    SELECT coalesce(json_object_agg(f.name, f.described), '{}')::text
      FROM (SELECT DISTINCT ON (n.name) n.name,
                   json_build_object('defaults', a.tasks -> n.name -> 'defaults', 'computed', a.tasks -> n.name -> 'computed')
                       AS described
              FROM rota.bound_to() AS b, json_array_elements_text(names::json) AS n (name),
                   rota.announcements_of(ARRAY[of_namespace]) AS o
              JOIN rota.announced_tasks AS a
                ON a.namespace = o.app_namespace AND a.app = o.app AND a.version = o.version AND a.digest = o.digest
             WHERE (of_namespace = ANY (b.namespaces)) IS NOT FALSE AND a.tasks -> n.name IS NOT NULL
             ORDER BY n.name, o.place) AS f
$$;

REVOKE ALL ON FUNCTION rota.task_defaults_v1(text, text) FROM PUBLIC;
