-- Writes a recurring job's new definition, state and marks, and raises its version. Called under lock_job.
-- $1 namespace; $2 id; then the columns in order. The large payload, if any ($20 its text or $21 its key in object storage), gets a row of its own: runs that
-- were made before keep the old one.
WITH large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT $1, $9::uuid, $20::text, $21::text WHERE coalesce($20::text, $21::text) IS NOT NULL
)
UPDATE rota.jobs
   SET version = version + 1, name = $3, task = $4, pool = $5, priority = $6, tags = $7, payload = $8,
       payload_id = $9, options = $10, schedule_type = $11, cron_expression = $12, every_seconds = $13,
       timezone = $14, anchor_at = $15, state = $16, next_fire_at = $17, fired_through = $18, updated_at = now(),
       owner = $19, policies = $22::jsonb, misfire = $23, start_at = $24, end_at = $25, jitter_seconds = $26, dst = $27,
       -- What a person resumes or cancels is no longer what its application paused.
       note = CASE WHEN paused_by_app AND $16 = 'paused' THEN note END, paused_by_app = paused_by_app AND $16 = 'paused'
 WHERE namespace = $1 AND id = $2
RETURNING version
