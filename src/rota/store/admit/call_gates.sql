-- Calls gates: admission looks which runs waiting there may go on. A note of no run, with policies that name the gate;
-- for an overlap gate, whose key is its job, the job; for a dependency, whose key is a job and its run, as if that run
-- had left.
-- Index: none
-- Locks: none
INSERT INTO rota.departures (namespace, run_id, job_id, policies)
SELECT i.namespace,
       CASE WHEN i.kind = 'dependency' THEN right(i.key, 32)::uuid ELSE '00000000-0000-0000-0000-000000000000' END,
       CASE WHEN i.kind = 'overlap' THEN i.key::uuid WHEN i.kind = 'dependency' THEN left(i.key, 32)::uuid
            ELSE '00000000-0000-0000-0000-000000000000' END,
       CASE i.kind WHEN 'dependency' THEN jsonb_build_object('awaited', true)
                   WHEN 'overlap' THEN jsonb_build_object('overlap', 'queue')
                   ELSE jsonb_build_object(i.kind, i.key) END
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[]) AS i (namespace, kind, key)
