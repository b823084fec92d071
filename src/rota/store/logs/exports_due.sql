-- Logs that have ended and are to be sent, oldest first, with where they are in object storage; at most `limit`.
-- Index: log_exports_ended, then the primary key of kept_logs.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT e.namespace, e.run_id, e.claim, e.lines, k.attempt, k.blob, k.first, k.length
  FROM (SELECT * FROM rota.log_exports WHERE ended_at IS NOT NULL ORDER BY ended_at LIMIT :limit) AS e
  LEFT JOIN LATERAL (
       SELECT k.attempt, k.blob, k.first, k.length FROM rota.kept_logs AS k
        WHERE k.namespace = e.namespace AND k.run_id = e.run_id AND k.claim = e.claim OFFSET 0) AS k ON true
