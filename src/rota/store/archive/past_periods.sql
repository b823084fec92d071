-- Partitions of history that were over before today and are not on their way to the archive, oldest first.
-- Index: none; reads the catalogue and a small table.
-- Locks: none
SELECT period
  FROM (SELECT substring(c.relname FROM '^finished_runs_(\d{6}|\d{8})$') AS period
          FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'rota.finished_runs'::regclass) AS p
 WHERE CASE length(period) WHEN 8 THEN to_date(period, 'YYYYMMDD') + 1
                           WHEN 6 THEN (to_date(period, 'YYYYMM') + interval '1 month')::date END
       < (now() AT TIME ZONE 'UTC')::date
   AND NOT EXISTS (SELECT FROM rota.archives AS a WHERE a.period = p.period AND a.state <> 'dropped')
 ORDER BY rpad(period, 8, '9')
