-- Writes the start of runs that outlast a beat, and progress that changed, fenced by claim number.
-- Index: primary key.
-- Locks: the runs, in the order given: callers sort by id.
-- Idioms: one-element array, by_id.
UPDATE rota.live_runs AS l
   SET started_at = to_timestamp(i.started), progress = coalesce(i.progress, l.progress),
       progress_note = coalesce(i.note, l.progress_note), checkpoint = coalesce(i.checkpoint, l.checkpoint)
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[], :started::float8[], :progress::float8[],
              :notes::text[], :checkpoints::text[])
       AS i (namespace, id, claim, started, progress, note, checkpoint)
 WHERE rota.by_id(l.namespace) = ANY (ARRAY[i.namespace]) AND l.id = ANY (ARRAY[i.id]) AND l.claim = i.claim
