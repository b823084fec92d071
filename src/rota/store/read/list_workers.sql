-- The fleet: live workers, and those gone within the last hour; that serve this namespace, or all (null).
-- Index: none: a small table.
-- Locks: none
SELECT id, host, pid, namespaces, pools, tasks, slots, busy, fenced, draining, started_at, beat_at, gone_at,
       gone_why, ailing,
       app_namespace, app, app_version, announced,
       CASE WHEN gone_at IS NOT NULL THEN 'gone' WHEN now() - beat_at > lease THEN 'silent'
            WHEN draining THEN 'draining' WHEN ailing IS NOT NULL THEN 'ailing' ELSE 'live' END AS status
  FROM rota.workers
 WHERE (gone_at IS NULL OR gone_at > now() - interval '1 hour')
   AND (:namespace::text IS NULL OR :namespace = ANY (namespaces))
 ORDER BY gone_at IS NOT NULL, started_at
