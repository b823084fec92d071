-- Schedules of a namespace that name a calendar and may still fire, in the order of their ids.
-- Index: primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT j.id, j.name, j.options
  FROM rota.calendar_uses AS u
 CROSS JOIN LATERAL (
       SELECT * FROM rota.jobs AS j WHERE j.namespace = u.namespace AND j.id = u.job_id OFFSET 0
       ) AS j
 WHERE u.namespace = :namespace AND u.calendar = :name AND j.state IN ('scheduled', 'paused')
 ORDER BY j.id
