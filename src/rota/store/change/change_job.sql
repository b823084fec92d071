-- Writes a recurring job's new definition, state and marks, and raises its version. Called under lock_job. A large
-- payload (its text, or its key in object storage) gets a row of its own: runs that were made before keep the old one.
-- Index: primary key.
-- Locks: none of its own.
WITH large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT :namespace, :payload_id::uuid, :large_payload::text, :blob::text
     WHERE coalesce(:large_payload::text, :blob::text) IS NOT NULL
)
UPDATE rota.jobs
   SET version = version + 1, name = :name, task = :task, pool = :pool, priority = :priority, tags = :tags,
       payload = :payload,
       payload_id = :payload_id, options = :options, schedule_type = :schedule_type,
       cron_expression = :cron_expression, every_seconds = :every_seconds,
       timezone = :timezone, anchor_at = :anchor_at, state = :state, next_fire_at = :next_fire_at,
       fired_through = :fired_through, updated_at = now(),
       owner = :owner, policies = :policies::jsonb, misfire = :misfire, start_at = :start_at, end_at = :end_at,
       jitter_seconds = :jitter_seconds, dst = :dst, excluded = :excluded, excluded_next_at = :next_fire_at,
       -- A job that a person resumes or cancels no longer counts as paused by its application.
       note = CASE WHEN paused_by_app AND :state = 'paused' THEN note END,
       paused_by_app = paused_by_app AND :state = 'paused'
 WHERE namespace = :namespace AND id = :job_id
RETURNING version
