-- A page of where a period's logs are in object storage, run by run, with how the run ended.
-- Index: primary key of kept_logs, one day of it, and of finished_runs.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT t.namespace, t.run_id, t.claim, t.attempt, t.position, t.blob, t.first, t.length, r.status
  FROM rota.kept_logs AS t
  LEFT JOIN LATERAL (
       SELECT r.status FROM rota.finished_runs AS r
        WHERE r.namespace = t.namespace AND r.id = t.run_id AND r.id >= :first AND r.id < :before OFFSET 0
       ) AS r ON true
 WHERE t.run_id >= :first AND t.run_id < :before
   AND (t.namespace, t.run_id, t.claim) > (:after_namespace, :after_id, :after_claim)
 ORDER BY t.namespace, t.run_id, t.claim
 LIMIT :limit
