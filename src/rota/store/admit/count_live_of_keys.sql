-- How many runs of each concurrency key are live. Asked under the locks of these keys.
-- Index: live_runs_limited.
-- Locks: none
SELECT i.namespace, i.key,
       (SELECT count(*) FROM rota.live_runs AS l
         WHERE l.namespace = i.namespace AND (l.policies ->> 'limit') = i.key) AS used
  FROM unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
