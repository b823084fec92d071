-- Writes the start of runs that outlast a beat, and progress that changed. $1 namespaces; $2 run ids; $3 claims;
-- $4 started (seconds since the epoch); $5 progress; $6 notes; $7 checkpoints. Fenced by claim. Index: primary key.
UPDATE rota.live_runs AS l
   SET started_at = to_timestamp(i.started), progress = coalesce(i.progress, l.progress),
       progress_note = coalesce(i.note, l.progress_note), checkpoint = coalesce(i.checkpoint, l.checkpoint)
  FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::float8[], $5::float8[], $6::text[], $7::text[])
       AS i (namespace, id, claim, started, progress, note, checkpoint)
 WHERE l.namespace = ANY (ARRAY[i.namespace]) AND l.id = ANY (ARRAY[i.id]) AND l.claim = i.claim
