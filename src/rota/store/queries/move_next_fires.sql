-- Writes other next fire times, for jobs that are still as they were read. $1 namespaces; $2 ids; $3 versions; $4 next fire
-- times as they were, $5 as they shall be. Index: primary key.
UPDATE rota.jobs AS j SET next_fire_at = i.wanted
  FROM unnest($1::text[], $2::uuid[], $3::integer[], $4::timestamptz[], $5::timestamptz[])
    AS i (namespace, id, version, before, wanted)
 WHERE j.namespace = ANY (ARRAY[i.namespace]) AND j.id = ANY (ARRAY[i.id]) AND j.version = i.version
   AND j.next_fire_at = i.before AND j.state NOT IN ('paused', 'cancelled', 'completed') AND i.wanted > j.fired_through
RETURNING j.id
