-- Runs that use up a limit, with how many there are. $1 namespace; $2 concurrency key; $3 at most so many.
-- Index: live_runs_limited.
SELECT l.id, (SELECT count(*) FROM rota.live_runs AS l
               WHERE l.namespace = $1 AND (l.policies ->> 'limit') = $2) AS used
  FROM rota.live_runs AS l
 WHERE l.namespace = $1 AND (l.policies ->> 'limit') = $2
 LIMIT $3
