-- How many runs of each owner wait, ready or at a gate, among the first $1 of each place.
SELECT namespace, owner, count(*) AS waiting
  FROM ((SELECT namespace, owner FROM rota.live_runs WHERE worker_id IS NULL LIMIT $1::bigint)
        UNION ALL
        (SELECT namespace, owner FROM rota.held_runs WHERE gate NOT IN ('pause', 'recall') LIMIT $1::bigint)) AS waiting
 GROUP BY namespace, owner
