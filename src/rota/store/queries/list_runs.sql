-- Runs, latest planned first. $1 namespace; ids in [$2, $3) (time range and cursor); filters, null for any: $4 owner,
-- $5 statuses, $6 name, $7 tag, $8 task; $9 limit. Index: primary keys in the order of ids, merged.
SELECT * FROM rota.runs
 WHERE namespace = $1 AND id >= $2 AND id < $3
   AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
   AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags)) AND ($8::text IS NULL OR task = $8)
 ORDER BY id DESC
 LIMIT $9
