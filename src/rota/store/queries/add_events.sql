-- Records what happened to something other than a run. $1 namespaces; $2 kinds; $3 subjects; $4 details; $5 jobs that it is
-- about: of a recurring one, its owner is the event's. Index: primary key of jobs.
INSERT INTO rota.events (namespace, kind, subject, detail, owner)
SELECT i.namespace, i.kind, i.subject, i.detail,
       (SELECT j.owner FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.job_id)
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::uuid[]) AS i (namespace, kind, subject, detail, job_id)
