-- Why a queued run is not running: what the fleet offers to its pool and task. $1 namespace; $2 pool; $3 task.
SELECT count(*) AS live,
       count(*) FILTER (WHERE $1 = ANY (namespaces)) AS serving_namespace,
       count(*) FILTER (WHERE $1 = ANY (namespaces) AND $2 = ANY (pools)) AS serving_pool,
       count(*) FILTER (WHERE $1 = ANY (namespaces) AND $3 = ANY (tasks)) AS knowing_task,
       count(*) FILTER (WHERE $1 = ANY (namespaces) AND $2 = ANY (pools) AND $3 = ANY (tasks)) AS able,
       count(*) FILTER (WHERE $1 = ANY (namespaces) AND $2 = ANY (pools) AND $3 = ANY (tasks) AND busy < slots) AS free,
       EXISTS (SELECT FROM rota.pools WHERE namespace = $1 AND pool = $2 AND paused_at IS NOT NULL) AS paused
  FROM rota.workers
 WHERE gone_at IS NULL AND NOT draining
