-- Records events. One about a recurring job is its owner's, unless it names an owner.
-- Index: primary key of jobs.
-- Locks: none
INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
SELECT i.namespace, i.kind, i.subject, i.detail,
       coalesce(i.owner,
                (SELECT j.owner FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.job_id)),
       i.data
  FROM unnest(:namespaces::text[], :kinds::text[], :subjects::text[], :details::text[], :job_ids::uuid[],
              :owners::text[], :datas::text[])
       AS i (namespace, kind, subject, detail, job_id, owner, data)
