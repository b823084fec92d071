-- The slots that live workers offer to each namespace and pool.
-- Index: none: a small table.
-- Locks: none
SELECT served.namespace, offered.pool, sum(w.slots) AS slots
  FROM rota.workers AS w
 CROSS JOIN LATERAL unnest(w.namespaces) AS served (namespace)
 CROSS JOIN LATERAL unnest(w.pools) AS offered (pool)
 WHERE w.gone_at IS NULL
 GROUP BY served.namespace, offered.pool
