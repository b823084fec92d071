-- So much of these logs was sent; less than is known already changes nothing.
-- Index: primary key.
-- Locks: the rows.
INSERT INTO rota.log_exports AS e (namespace, run_id, claim, lines, chunk)
SELECT namespace, run_id, claim, lines, chunk
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[], :lines::integer[], :chunks::integer[])
       AS i (namespace, run_id, claim, lines, chunk)
ON CONFLICT (namespace, run_id, claim) DO UPDATE
   SET lines = greatest(e.lines, excluded.lines), chunk = greatest(e.chunk, excluded.chunk)
