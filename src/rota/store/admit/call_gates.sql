-- Calls gates: admission looks which runs waiting there may go on. A note of no run, with policies that name the gate;
-- for an overlap gate, whose key is its job, the job.
-- Index: none
-- Locks: none
INSERT INTO rota.departures (namespace, run_id, job_id, policies)
SELECT i.namespace, '00000000-0000-0000-0000-000000000000',
       CASE WHEN i.kind = 'overlap' THEN i.key::uuid ELSE '00000000-0000-0000-0000-000000000000' END,
       jsonb_build_object(i.kind, CASE WHEN i.kind = 'overlap' THEN 'queue' ELSE i.key END)
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[]) AS i (namespace, kind, key)
