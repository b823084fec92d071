-- Schedules in local time after the one named, in the order of (namespace, id).
-- Index: primary key.
-- Locks: none
SELECT j.namespace, j.id, j.version, j.schedule_type, j.cron_expression, j.every_seconds, j.timezone, j.anchor_at,
       j.start_at, j.end_at, j.jitter_seconds, j.dst, j.misfire, j.excluded, j.next_fire_at, j.fired_through,
       clock_timestamp() AS database_time
  FROM rota.jobs AS j
 WHERE (j.namespace, j.id) > (:namespace, :job_id) AND j.state = 'scheduled' AND (j.schedule_type = 'cron' OR j.excluded IS NOT NULL)
   AND j.timezone <> 'UTC'
 ORDER BY j.namespace, j.id
 LIMIT :limit
