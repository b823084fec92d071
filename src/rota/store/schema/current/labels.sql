-- The labels of a run's tags. Apart from rota.labels, which can be inlined only without a subquery: called for each row it
-- would take longer than the rest of an index entry, and most runs have no tags.
CREATE FUNCTION rota.tag_labels(period text, namespace text, tags text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT rota.label(period, namespace, 4, tag) FROM unnest(tags) AS t (tag));

-- All labels of a run; see label.sql.
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
