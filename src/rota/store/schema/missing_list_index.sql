-- The next index of lists that a table lacks (decision 0021): days that are older than the index, latest first, and
-- upcoming runs. Only where our role may make it, and nobody else is at work on the table: a session that builds an index,
-- even one whose client is gone, holds a lock on the table until the end, and an index that is not valid while no session
-- holds it was left behind. Gives what to do, as statements: `remove` what was left behind (null: nothing was), and
-- `build`. It is not attached to the index of all days: that locks out all who use the day, and no list needs it.
-- Index: none; it reads the catalog.
-- Locks: none
WITH wanted AS (
    SELECT day.oid AS id, day.relname, day.relowner, day.relname || substring(all_days.relname FROM '_[a-z]+$') AS name,
           substring(pg_get_indexdef(all_days.oid) FROM 'USING .*') AS definition, all_days.oid AS parent
      FROM pg_inherits AS i
      JOIN pg_class AS day ON day.oid = i.inhrelid
      JOIN pg_class AS all_days ON all_days.relnamespace = 'rota'::regnamespace
                               AND all_days.relname = 'finished_runs_labelled'
     WHERE i.inhparent = 'rota.finished_runs'::regclass
    UNION ALL
    SELECT t.oid, t.relname, t.relowner, d.name, d.definition, NULL
      FROM pg_class AS t
     CROSS JOIN (VALUES ('upcoming_runs_owned', $$USING btree (rota.label('', namespace, 1, owner), id)$$),
                        ('upcoming_runs_labelled',
                         $$USING gin (rota.labels('', namespace, owner, task, name, tags,
                                                  CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END))
                            WITH (gin_pending_list_limit = 256)$$)) AS d (name, definition)
     WHERE t.relnamespace = 'rota'::regnamespace AND t.relname = 'upcoming_runs'
)
SELECT w.name,
       CASE WHEN EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = 'rota'::regnamespace AND c.relname = w.name)
            THEN format('DROP INDEX CONCURRENTLY IF EXISTS rota.%I', w.name) END AS remove,
       format('CREATE INDEX CONCURRENTLY IF NOT EXISTS %I ON rota.%I %s', w.name, w.relname, w.definition) AS build
  FROM wanted AS w
 WHERE NOT EXISTS (SELECT FROM pg_index AS x
                     JOIN pg_class AS c ON c.oid = x.indexrelid
                     LEFT JOIN pg_inherits AS h ON h.inhrelid = x.indexrelid
                    WHERE x.indrelid = w.id AND x.indisvalid AND (c.relname = w.name OR h.inhparent = w.parent))
   AND pg_has_role(w.relowner, 'USAGE')
   AND NOT EXISTS (SELECT FROM pg_locks AS l
                    WHERE l.locktype = 'relation' AND l.relation = w.id AND l.mode = 'ShareUpdateExclusiveLock'
                      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
 ORDER BY w.relname DESC, w.name DESC
 LIMIT 1
