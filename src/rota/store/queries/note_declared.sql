-- Writes how a job stands to the code that declares it. $1 namespace; $2 id; $3 what is declared (null: nothing any more);
-- $4 the version of the application; $5 a note for people. Index: primary key.
UPDATE rota.jobs
   SET declared = coalesce($3::jsonb, declared), app_version = $4, paused_by_app = $3::text IS NULL, note = $5::text
 WHERE namespace = $1 AND id = $2
