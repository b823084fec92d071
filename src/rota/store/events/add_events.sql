-- Records events, each about a job: of a recurring one, its owner is the event's.
-- Index: primary key of jobs.
-- Locks: none
INSERT INTO rota.events (namespace, kind, subject, detail, owner)
SELECT i.namespace, i.kind, i.subject, i.detail,
       (SELECT j.owner FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.job_id)
  FROM unnest(:namespaces::text[], :kinds::text[], :subjects::text[], :details::text[], :job_ids::uuid[])
       AS i (namespace, kind, subject, detail, job_id)
