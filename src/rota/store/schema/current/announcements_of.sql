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
