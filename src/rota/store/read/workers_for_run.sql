-- Why a queued run is not running: what the fleet offers to its pool and task.
-- Index: none: a small table; the primary key of pools.
-- Locks: none
SELECT count(*) AS live,
       count(*) FILTER (WHERE :namespace = ANY (namespaces)) AS serving_namespace,
       count(*) FILTER (WHERE :namespace = ANY (namespaces) AND :pool = ANY (pools)) AS serving_pool,
       count(*) FILTER (WHERE :namespace = ANY (namespaces) AND :task = ANY (tasks)) AS knowing_task,
       count(*) FILTER (WHERE :namespace = ANY (namespaces) AND :pool = ANY (pools) AND :task = ANY (tasks)) AS able,
       count(*) FILTER (WHERE :namespace = ANY (namespaces) AND :pool = ANY (pools) AND :task = ANY (tasks)
                          AND busy < slots) AS free,
       EXISTS (SELECT FROM rota.pools WHERE namespace = :namespace AND pool = :pool AND paused_at IS NOT NULL) AS paused
  FROM rota.workers
 WHERE gone_at IS NULL AND NOT draining
