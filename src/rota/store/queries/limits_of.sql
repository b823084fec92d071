-- How many runs of a concurrency key are live. $1 namespaces; $2 keys. Asked under the locks of these keys.
-- Index: live_runs_limited.
SELECT i.namespace, i.key,
       (SELECT count(*) FROM rota.live_runs AS l
         WHERE l.namespace = i.namespace AND (l.policies ->> 'limit') = i.key) AS used
  FROM unnest($1::text[], $2::text[]) AS i (namespace, key)
