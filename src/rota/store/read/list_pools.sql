-- Pools that are known or that live workers serve, with what these offer.
-- Index: primary key of pools; the whole of workers, a small table.
-- Locks: none
SELECT names.pool, p.paused_at, p.most_waiting,
       (SELECT count(*) FROM rota.workers AS w WHERE w.gone_at IS NULL AND :namespace = ANY (w.namespaces)
           AND names.pool = ANY (w.pools)) AS workers,
       (SELECT coalesce(sum(w.slots), 0) FROM rota.workers AS w
         WHERE w.gone_at IS NULL AND :namespace = ANY (w.namespaces) AND names.pool = ANY (w.pools)) AS slots
  FROM (SELECT pool FROM rota.pools WHERE namespace = :namespace
        UNION
        SELECT unnest(w.pools) FROM rota.workers AS w WHERE w.gone_at IS NULL AND :namespace = ANY (w.namespaces))
               AS names (pool)
  LEFT JOIN rota.pools AS p ON p.namespace = :namespace AND p.pool = names.pool
 ORDER BY names.pool
