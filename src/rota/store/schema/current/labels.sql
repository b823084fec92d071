-- All labels of a run with tags or a status other than the usual ones. Apart from rota.labels, which can be inlined only
-- without a subquery: called for each row it would take longer than the rest of an index entry, and few runs need it.
CREATE FUNCTION rota.rare_labels(
    period text, namespace text, owner text, task text, name text, tags text[], status text
) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
             rota.label(period, namespace, 3, name), rota.label(period, namespace, 5, status)]
       || ARRAY(SELECT rota.label(period, namespace, 4, tag) FROM unnest(tags) AS t (tag));

-- All labels of a run; see label.sql. The usual statuses, success and scheduled, have none when there are no tags: nearly
-- every run has one of them, so an index that knew them would cost much and find little.
CREATE FUNCTION rota.labels(
    period text, namespace text, owner text, task text, name text, tags text[], status text
) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN cardinality(tags) = 0 AND (status = 'success' OR status = 'scheduled')
            THEN ARRAY[rota.label(period, namespace, 1, owner), rota.label(period, namespace, 2, task),
                       rota.label(period, namespace, 3, name)]
            ELSE rota.rare_labels(period, namespace, owner, task, name, tags, status) END;
