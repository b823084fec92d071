-- Events of a namespace in order. $1 namespace; numbers in ($2, $3]; $4 owner, null for any; $5 limit. Index: primary key.
SELECT id, at, kind, subject, detail FROM rota.events
 WHERE namespace = $1 AND id > $2 AND id <= $3 AND ($4::text IS NULL OR owner = $4) ORDER BY id LIMIT $5
