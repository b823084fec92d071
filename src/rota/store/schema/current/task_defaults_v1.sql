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
