-- Schedules that others depend on: their calendars, and how far they have fired. Read before the runs that
-- they made (needed_runs): what is above a mark that was read earlier may have its run by now, and what is below has it.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT j.namespace, j.id, j.version, j.state, j.schedule_type, j.cron_expression, j.every_seconds, j.timezone,
       j.anchor_at, j.start_at, j.end_at, j.jitter_seconds, j.dst, j.misfire, j.excluded, j.next_fire_at, j.fired_through,
       j.owner, j.options
  FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.job_id OFFSET 0
       ) AS j
