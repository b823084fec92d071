-- Which of several runs have ended. :namespaces namespaces; :run_ids run ids. Index: primary key of finished_runs, one day of it each.
SELECT i.namespace, i.id
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT f.status FROM rota.finished_runs AS f WHERE f.namespace = i.namespace AND f.id = i.id OFFSET 0
       ) AS f
