-- Schedulers sleep while nothing is due: a run that is submitted in a program's own transaction and is due before they
-- would look again wakes them.
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
END
$migration$;
