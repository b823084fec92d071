-- Functions that bring their own search path get the clock that can be set, too. Run once, after the migrations.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT p.oid::regprocedure AS name, substr(setting, length('search_path=') + 1) AS path
          FROM pg_proc AS p, unnest(p.proconfig) AS setting
         WHERE p.pronamespace = 'rota'::regnamespace AND setting LIKE 'search_path=%'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = rota_time, %s', found.name, found.path);
    END LOOP;
END
$$;
