-- Writes how a job stands to the code that declares it. :namespace namespace; :job_id id; :declared what is declared (null: nothing any more);
-- :version the version of the application; :note a note for people. Index: primary key.
UPDATE rota.jobs
   SET declared = coalesce(:declared::jsonb, declared), app_version = :version, paused_by_app = :declared::text IS NULL, note = :note::text
 WHERE namespace = :namespace AND id = :job_id
