-- Makes a job from a declared schedule. A null next fire time: the schedule never fires again.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard,
                       schedule_type, cron_expression,
                       every_seconds, timezone, anchor_at, state, next_fire_at, fired_through, policies, misfire,
                       start_at, end_at,
                       jitter_seconds, dst, app, excluded, excluded_next_at)
VALUES (:namespace, :job_id, :owner, :name, :task, :pool, :priority, :tags::text[], :payload::text, :options, :shard,
        :schedule_type, :cron_expression::text, :every_seconds::float8, :timezone, :anchor_at,
        CASE WHEN :next_fire_at::timestamptz IS NULL THEN 'completed' ELSE 'scheduled' END, :next_fire_at, now(),
             :policies::jsonb, :misfire::text, :start_at::timestamptz,
        :end_at::timestamptz, :jitter_seconds, :dst::text, :app, :excluded::text, :next_fire_at)
