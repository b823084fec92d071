-- Makes a job of a declared schedule. :namespace namespace; :job_id id; :owner owner; :name name; :task task; :pool pool; :priority priority; :tags tags; :payload payload;
-- :options options; :shard shard; :schedule_type schedule type; :cron_expression cron expression; :every_seconds interval; :timezone time zone; :anchor_at anchor; :next_fire_at next fire time (null: none
-- any more); :policies policies; :misfire misfire rule; :start_at start; :end_at end; :jitter_seconds jitter; :dst rule for clock changes; :app application.
INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, schedule_type, cron_expression,
                       every_seconds, timezone, anchor_at, state, next_fire_at, fired_through, policies, misfire, start_at, end_at,
                       jitter_seconds, dst, app)
VALUES (:namespace, :job_id, :owner, :name, :task, :pool, :priority, :tags::text[], :payload::text, :options, :shard, :schedule_type, :cron_expression::text, :every_seconds::float8, :timezone, :anchor_at,
        CASE WHEN :next_fire_at::timestamptz IS NULL THEN 'completed' ELSE 'scheduled' END, :next_fire_at, now(), :policies::jsonb, :misfire::text, :start_at::timestamptz,
        :end_at::timestamptz, :jitter_seconds, :dst::text, :app)
