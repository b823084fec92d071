-- Lists find runs by what they are filtered by, not by reading all runs of the time asked for (decision 0021): an index on
-- labels, which are numbers made of owner, task, name, tag and status; of upcoming runs also one on the owner in the order
-- of lists.

CREATE FUNCTION rota.label(period text, namespace text, kind integer, value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended((period || value) COLLATE "C", hashtextextended(namespace COLLATE "C", kind));

CREATE FUNCTION rota.rare_labels(
    period text, namespace text, owner text, task text, name text, tags text[], status text
) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
             rota.label(period, namespace, 3, name), rota.label(period, namespace, 5, status)]
       || ARRAY(SELECT rota.label(period, namespace, 4, tag) FROM unnest(tags) AS t (tag));

CREATE FUNCTION rota.labels(
    period text, namespace text, owner text, task text, name text, tags text[], status text
) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN cardinality(tags) = 0 AND (status = 'success' OR status = 'scheduled')
            THEN ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
                       rota.label(period, namespace, 3, name)]
            ELSE rota.rare_labels(period, namespace, owner, task, name, tags, status) END;

-- Days that are made from now on have the index. Those that are there and hold runs get it afterwards, one at a time and
-- without stopping anything, from a scheduler (store/schema/list_indexes.py).
CREATE INDEX finished_runs_labelled ON ONLY rota.finished_runs
 USING gin (rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status))
  WITH (gin_pending_list_limit = 256);

DO $$
DECLARE
    day   regclass;
    found boolean;
    child text;
BEGIN
    FOR day IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'rota.finished_runs'::regclass ORDER BY 1 LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', day) INTO found;
        CONTINUE WHEN found;
        child := (SELECT relname FROM pg_class WHERE oid = day) || '_labelled';
        EXECUTE format('CREATE INDEX %I ON %s %s', child, day,
                       substring(pg_get_indexdef('rota.finished_runs_labelled'::regclass) FROM 'USING .*'));
        EXECUTE format('ALTER INDEX rota.finished_runs_labelled ATTACH PARTITION rota.%I', child);
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
