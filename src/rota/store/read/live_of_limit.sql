-- Runs that use up a limit, with how many there are. :namespace namespace; :key concurrency key; :limit at most so many.
-- Index: live_runs_limited.
SELECT l.id, (SELECT count(*) FROM rota.live_runs AS l
               WHERE l.namespace = :namespace AND (l.policies ->> 'limit') = :key) AS used
  FROM rota.live_runs AS l
 WHERE l.namespace = :namespace AND (l.policies ->> 'limit') = :key
 LIMIT :limit
