-- Writes other next fire times, for jobs that are still as they were read.
-- Index: primary key.
-- Locks: the jobs' rows.
-- Idioms: one-element array, by_id.
UPDATE rota.jobs AS j SET next_fire_at = i.wanted, excluded_next_at = i.wanted
  FROM unnest(:namespaces::text[], :job_ids::uuid[], :versions::integer[], :before::timestamptz[],
              :wanted::timestamptz[])
    AS i (namespace, id, version, before, wanted)
 WHERE rota.by_id(j.namespace) = ANY (ARRAY[i.namespace]) AND j.id = ANY (ARRAY[i.id]) AND j.version = i.version
   AND j.next_fire_at = i.before AND j.state NOT IN ('paused', 'cancelled', 'completed') AND i.wanted > j.fired_through
RETURNING j.id
