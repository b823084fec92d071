-- How many runs of each owner wait, ready or at a gate.
-- Index: none: reads everything that waits.
-- Locks: none
SELECT namespace, owner, count(*) AS waiting
  FROM (SELECT namespace, owner FROM rota.live_runs WHERE worker_id IS NULL
        UNION ALL
        SELECT namespace, owner FROM rota.held_runs WHERE gate NOT IN ('pause', 'recall')) AS waiting
 GROUP BY namespace, owner
