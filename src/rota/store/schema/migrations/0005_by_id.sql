-- Before version 17 PostgreSQL looks up many ids under one namespace in an index on (namespace, id) only where its
-- statistics say so; else it reads the whole namespace. There the same statements go by id alone (queries/__init__.py),
-- and need these. From 17 on they would only cost.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer < 170000 THEN
        CREATE INDEX live_runs_by_id ON rota.live_runs (id);
        CREATE INDEX upcoming_runs_by_id ON rota.upcoming_runs (id);
        CREATE INDEX held_runs_by_id ON rota.held_runs (id);
        CREATE INDEX jobs_by_id ON rota.jobs (id);
        CREATE INDEX dead_letters_by_id ON rota.dead_letters (run_id);
        CREATE INDEX log_ends_by_id ON rota.log_ends (run_id);
    END IF;
END
$$;
