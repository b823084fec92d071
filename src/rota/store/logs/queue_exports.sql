-- These logs have ended and are to be sent elsewhere; what was sent of them meanwhile stays known.
-- Index: primary key.
-- Locks: the rows.
INSERT INTO rota.log_exports AS e (namespace, run_id, claim, ended_at)
SELECT namespace, run_id, claim, now()
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (namespace, run_id, claim)
ON CONFLICT (namespace, run_id, claim) DO UPDATE SET ended_at = coalesce(e.ended_at, excluded.ended_at)
