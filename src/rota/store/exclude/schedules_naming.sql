-- Schedules of a namespace that name a calendar and may still fire, in the order of their ids.
-- Index: jobs_excluded; all schedules of the namespace that leave out days are read, few as they are.
-- Locks: none
SELECT j.id, j.name
  FROM rota.jobs AS j
 WHERE j.namespace = :namespace AND j.excluded IS NOT NULL AND j.state IN ('scheduled', 'paused')
   AND (j.excluded::jsonb -> 'revisions') ? :name
 ORDER BY j.id
