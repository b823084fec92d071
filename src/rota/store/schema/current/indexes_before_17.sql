-- Indexes that only servers before version 17 have. Those look up many ids under one namespace in an index on
-- (namespace, id) only where their statistics say so; else they read the whole namespace. There the statements go by id
-- alone and need these indexes. From 17 on they would only cost.
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
