-- How many dead rows each hot table has, as the statistics know it; only tables that our role may vacuum.
-- Index: none; it reads a few rows of the catalog.
-- Locks: none.
SELECT c.relname AS name, pg_stat_get_dead_tuples(c.oid) AS dead
  FROM pg_class AS c
 WHERE c.relnamespace = 'rota'::regnamespace AND c.relname = ANY (:tables::text[])
   AND (pg_has_role(c.relowner, 'USAGE')
        OR CASE WHEN current_setting('server_version_num')::integer >= 170000
                THEN has_table_privilege(c.oid, 'MAINTAIN') END)
