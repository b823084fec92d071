-- Writes what the code declares of a job (null: nothing any more), which version said so, and a note for people.
-- Index: primary key.
-- Locks: the job's row.
UPDATE rota.jobs
   SET declared = coalesce(:declared::jsonb, declared), app_version = :version,
       paused_by_app = :declared::text IS NULL, note = :note::text
 WHERE namespace = :namespace AND id = :job_id
