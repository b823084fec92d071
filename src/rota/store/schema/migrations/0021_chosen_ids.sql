-- Jobs may have ids that their submitters choose. The primary key lets only one job of a namespace have each. Jobs with
-- generated ids have no row here, and pay nothing.
CREATE TABLE rota.chosen_ids (
    namespace text COLLATE "C" NOT NULL,
    chosen_id text COLLATE "C" NOT NULL,   -- also among the options of the job and of its runs, to be shown
    job_id    uuid NOT NULL,               -- the generated id, under which everything else knows the job
    PRIMARY KEY (namespace, chosen_id)
);

-- Programs submit such jobs in transactions of their own as well.
DO $migration$
DECLARE
    body text := pg_get_functiondef('rota.submit_unbound(text)'::regprocedure);
    edit text[];
BEGIN
    FOREACH edit SLICE 1 IN ARRAY ARRAY[
        ARRAY[$old$    before    rota.submission_keys;
$old$,
$new$    before    rota.submission_keys;
    id_holder uuid;
    shown     text;
$new$],
        ARRAY[$old$           SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
         WHERE k.expires_at < moment;
    END IF;
$old$,
$new$           SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
         WHERE k.expires_at < moment;
    END IF;
    IF strpos(jobs, '"chosenId"') > 0 THEN
        INSERT INTO rota.chosen_ids (namespace, chosen_id, job_id)
        SELECT c.namespace, c.chosen_id, c.id
          FROM (SELECT DISTINCT ON (1, 2) (a.job ->> 'namespace') COLLATE "C" AS namespace,
                       (a.job ->> 'chosenId') COLLATE "C" AS chosen_id, (a.job ->> 'id')::uuid AS id
                  FROM jsonb_array_elements(all_jobs) WITH ORDINALITY AS a (job, place)
                 WHERE a.job ? 'chosenId' ORDER BY 1, 2, a.place) AS c
         ORDER BY c.namespace, c.chosen_id
        ON CONFLICT ON CONSTRAINT chosen_ids_pkey DO NOTHING;
    END IF;
$new$],
        ARRAY[$old$                   AND k.answer = job_id::text;
                answers[place]$old$,
$new$                   AND k.answer = job_id::text;
                DELETE FROM rota.chosen_ids AS c
                 WHERE job ? 'chosenId' AND c.namespace = ns AND c.chosen_id = job ->> 'chosenId' AND c.job_id = job_id;
                answers[place]$new$],
        ARRAY[$old$        -- Unique key: ours, or locked together with the look at the job that has it. None: a repeat let it go.
$old$,
$new$        -- Chosen id: ours, or another job's. None: a job of this call had it, and was not written.
        IF job ? 'chosenId' THEN
            INSERT INTO rota.chosen_ids (namespace, chosen_id, job_id) VALUES (ns, job ->> 'chosenId', job_id)
            ON CONFLICT ON CONSTRAINT chosen_ids_pkey DO NOTHING;
            SELECT c.job_id INTO id_holder FROM rota.chosen_ids AS c
             WHERE c.namespace = ns AND c.chosen_id = job ->> 'chosenId';
            IF id_holder IS DISTINCT FROM job_id THEN
                DELETE FROM rota.submission_keys AS k
                 WHERE k.namespace = ns
                   AND (job ? 'key' AND k.kind = 'idempotency' AND k.key = job ->> 'key'
                        OR job ? 'unique' AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key'
                           AND k.answer = job_id::text);
                answers[place] := '{"taken": true}';
                CONTINUE;
            END IF;
        END IF;

        -- Unique key: ours, or locked together with the look at the job that has it. None: a repeat let it go.
$new$],
        ARRAY[$old$                     WHERE job ? 'key' AND k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                    answers[place] := jsonb_build_object('duplicate', holder, 'status', stands,
                                                         'recurring', recurring)::text;
$old$,
$new$                     WHERE job ? 'key' AND k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                    DELETE FROM rota.chosen_ids AS c
                     WHERE job ? 'chosenId' AND c.namespace = ns AND c.chosen_id = job ->> 'chosenId'
                       AND c.job_id = job_id;
                    answers[place] := jsonb_build_object('duplicate', holder, 'status', stands, 'recurring', recurring,
                                                         'options', shown)::text;
$new$],
        ARRAY[$old$                       j.id IS NOT NULL OR coalesce(r.place = 'live' AND r.pool <> ALL (pools), false)
                  INTO stands, recurring, waits, barred
$old$,
$new$                       j.id IS NOT NULL OR coalesce(r.place = 'live' AND r.pool <> ALL (pools), false),
                       coalesce(j.options, r.options)
                  INTO stands, recurring, waits, barred, shown
$new$]
    ] LOOP
        IF strpos(body, edit[1]) = 0 THEN
            RAISE EXCEPTION 'rota.submit_unbound is not as this migration knows it: %', edit[1];
        END IF;
        body := replace(body, edit[1], edit[2]);
    END LOOP;
    EXECUTE body;
END
$migration$;

-- As submit_v1, for programs whose jobs have ids of their choice (`chosenId`): a schema without this function would not
-- keep them. A job whose id is taken gets the answer {"taken": true}.
CREATE FUNCTION rota.submit_v2(jobs text) RETURNS text
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN rota.submit_v1(jobs);
REVOKE ALL ON FUNCTION rota.submit_v2(text) FROM PUBLIC;
