-- Runs of an operation that no worker has claimed, and that are no open workflow runs.
-- Index: operation_runs_of, primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.run_id
  FROM rota.operation_runs AS r
 CROSS JOIN LATERAL (
       SELECT FROM rota.upcoming_runs AS u WHERE u.namespace = r.namespace AND u.id = r.run_id
       UNION ALL
       SELECT FROM rota.held_runs AS h WHERE h.namespace = r.namespace AND h.id = r.run_id
       UNION ALL
       SELECT FROM rota.live_runs AS l WHERE l.namespace = r.namespace AND l.id = r.run_id AND l.claim IS NULL
       OFFSET 0
       ) AS waiting
 WHERE r.namespace = :namespace AND r.operation = :operation AND r.outcome IS NULL
 LIMIT :limit
