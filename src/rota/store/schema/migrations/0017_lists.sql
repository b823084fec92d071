-- Lists find runs by what they are filtered by, not by reading all runs of the time asked for (decision 0021): an index on
-- the owner in the order of lists, and one on labels, which are numbers made of owner, task, name, tag and status.

CREATE FUNCTION rota.label(period text, namespace text, kind integer, value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended((period || namespace || '/' || value) COLLATE "C", kind);

CREATE FUNCTION rota.tag_labels(period text, namespace text, tags text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT rota.label(period, namespace, 4, tag) FROM unnest(tags) AS t (tag));

CREATE FUNCTION rota.labels(
    period text, namespace text, owner text, task text, name text, tags text[], status text
) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN tags = '{}'
            THEN ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
                       rota.label(period, namespace, 3, name), rota.label(period, namespace, 5, status)]
            ELSE ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
                       rota.label(period, namespace, 3, name), rota.label(period, namespace, 5, status)]
                 || rota.tag_labels(period, namespace, tags) END;

-- Days that are made from now on have both indexes. Those that are there and hold runs get them afterwards, one at a time
-- and without stopping anything, from a scheduler (store/schema/list_indexes.py).
CREATE INDEX finished_runs_owned ON ONLY rota.finished_runs ((rota.label('', namespace, 1, owner)), id);
CREATE INDEX finished_runs_labelled ON ONLY rota.finished_runs
 USING gin (rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status))
  WITH (gin_pending_list_limit = 256);

DO $$
DECLARE
    day   regclass;
    found boolean;
    index regclass;
    child text;
BEGIN
    FOR day IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'rota.finished_runs'::regclass ORDER BY 1 LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', day) INTO found;
        CONTINUE WHEN found;
        FOREACH index IN ARRAY ARRAY['rota.finished_runs_owned', 'rota.finished_runs_labelled']::regclass[] LOOP
            child := (SELECT relname FROM pg_class WHERE oid = day) || substring(index::text FROM '_[a-z]+$');
            EXECUTE format('CREATE INDEX %I ON %s %s', child, day, substring(pg_get_indexdef(index) FROM 'USING .*'));
            EXECUTE format('ALTER INDEX %s ATTACH PARTITION rota.%I', index, child);
        END LOOP;
    END LOOP;
    -- A large table gets them from a scheduler as well: building them here would stop submissions meanwhile.
    IF pg_relation_size('rota.upcoming_runs') < 16777216 THEN
        CREATE INDEX upcoming_runs_owned ON rota.upcoming_runs ((rota.label('', namespace, 1, owner)), id);
        CREATE INDEX upcoming_runs_labelled ON rota.upcoming_runs
         USING gin (rota.labels('', namespace, owner, task, name, tags,
                                CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END))
          WITH (gin_pending_list_limit = 256);
    END IF;
END
$$;
