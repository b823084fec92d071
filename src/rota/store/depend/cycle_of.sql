-- Whether a job that would depend on these depends on itself then: gives the one of them that depends on it already, also
-- by way of others. Asked under the lock of the namespace's dependencies.
-- Index: primary key of dependencies.
-- Locks: none
-- Idioms: OFFSET 0.
WITH RECURSIVE reached (needs, first) AS (
    SELECT i.needs, i.needs FROM unnest(:needs::uuid[]) AS i (needs)
    UNION
    SELECT d.needs, r.first FROM reached AS r
     CROSS JOIN LATERAL (SELECT d.needs FROM rota.dependencies AS d
                          WHERE d.namespace = :namespace AND d.job_id = r.needs OFFSET 0) AS d
)
SELECT first FROM reached WHERE needs = :job_id LIMIT 1
