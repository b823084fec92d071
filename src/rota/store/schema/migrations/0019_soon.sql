-- Schedulers sleep while nothing is due: runs that are submitted in a program's own transaction and are due before
-- they would look again wake them.
DO $migration$
BEGIN
    EXECUTE replace(pg_get_functiondef('rota.submit_unbound(text)'::regprocedure),
                    $old$                        run_shard, due_at, due_at, moment, expires, gates);
$old$,
                    $new$                        run_shard, due_at, due_at, moment, expires, gates);
                IF due_at <= moment + interval '10 seconds' THEN
                    PERFORM pg_notify('rota_schedule', 'soon');  -- a scheduler may sleep for longer
                END IF;
$new$);
    EXECUTE replace(pg_get_functiondef('rota.submit_set_v1(text, text)'::regprocedure),
                    $old$    IF later THEN
        RETURN 'scheduled';
$old$,
                    $new$    IF later THEN
        IF due_at <= moment + interval '10 seconds' THEN
            PERFORM pg_notify('rota_schedule', 'soon');  -- a scheduler may sleep for longer
        END IF;
        RETURN 'scheduled';
$new$);
END
$migration$;
