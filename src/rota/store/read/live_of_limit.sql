-- Runs that use up a concurrency limit, with how many there are.
-- Index: live_runs_limited.
-- Locks: none
SELECT l.id, (SELECT count(*) FROM rota.live_runs AS l
               WHERE l.namespace = :namespace AND (l.policies ->> 'limit') = :key) AS used
  FROM rota.live_runs AS l
 WHERE l.namespace = :namespace AND (l.policies ->> 'limit') = :key
 LIMIT :limit
