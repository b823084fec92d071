-- How many slots the live workers of a pool, or of all pools (null), have for a namespace.
-- Index: none: a small table.
-- Locks: none
SELECT coalesce(sum(w.slots), 0)::integer AS slots FROM rota.workers AS w
 WHERE w.gone_at IS NULL AND now() - w.beat_at <= w.lease AND NOT w.draining AND :namespace = ANY (w.namespaces)
   AND (:pool::text IS NULL OR :pool = ANY (w.pools))
