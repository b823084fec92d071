-- The schema as it is now, after all migrations: look up here what a table, a column or a function is today.
--
-- Nothing loads these files at run time. Databases are made and changed by ../migrations alone; these files are
-- documentation that a test keeps true: tests/store/test_current_schema.py makes one database by the migrations and one
-- from here, and compares their catalogs.
--
-- When you add a migration, make the same change here and run that test: it shows what is missing (+) and what is too
-- much (-), object by object. Columns that a migration adds stand at the end of their table. A function's file has its
-- definition as it is now; layout and comments inside its body are free. List new files below.
--
-- A database to look at: createdb rota_look && psql rota_look -f schema.sql

CREATE SCHEMA rota;

-- What indexes of the tables are made of.
\ir label.sql
\ir labels.sql

\ir tables_jobs.sql
\ir tables_runs.sql
\ir tables_workflows.sql
\ir tables_operations.sql
\ir tables_logs.sql
\ir tables_fleet.sql
\ir tables_access.sql
\ir tables_alerts.sql
\ir tables_archive.sql
\ir indexes_before_17.sql
\ir runs_view.sql

-- Small rules that statements share.
\ir by_id.sql
\ir lane_of.sql
\ir expiry_of.sql
\ir changed_expiry.sql
\ir id_floor.sql
\ir announcements_of.sql

-- Partitions.
\ir make_day.sql
\ir make_day_of.sql
\ir drop_log_days.sql

-- The archive.
\ir note_late.sql
\ir watch_day.sql
\ir holds_day.sql
\ir detach_day.sql
\ir drop_day.sql
\ir payloads_of_day.sql
\ir restore_rows.sql
\ir attach_day.sql
\ir trim_audit.sql

-- Narrow database roles.
\ir bound_to.sql
\ir waits_unseen.sql

-- What programs call inside their own transactions.
\ir replace_waiting.sql
\ir submit_unbound.sql
\ir submit_v1.sql
\ir submit_v2.sql
\ir submit_set_v1.sql
\ir find_submissions_v1.sql
\ir task_defaults_v1.sql
\ir complete_unbound.sql
\ir complete_v1.sql

-- Triggers.
\ir refuse_change.sql
\ir note_end.sql
\ir await_others.sql
\ir count_end.sql
\ir note_calendars.sql
\ir refuse_unexcluded.sql
\ir tell_buried.sql
\ir tell_worker.sql
\ir tell_scheduler.sql
\ir tell_takeover.sql
\ir tell_operation.sql
\ir tell_workflow.sql
\ir note_unindexed.sql

-- Rights are granted per role, by store/schema/database_roles.py; USAGE on the schema must not imply EXECUTE.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA rota FROM PUBLIC;
