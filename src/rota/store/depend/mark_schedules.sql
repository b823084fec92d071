-- Marks schedules that others depend on, and their runs that have not ended: the end of each leaves a note. A run that
-- another transaction holds, because it moves or is claimed at this moment, is passed over. Gives how many these are: the
-- caller tries again for a moment, and the complete look of admission finds what is left.
-- Index: primary key of jobs; upcoming_runs_of_job, held_runs_of_job, live_runs_of_job.
-- Locks: the jobs' rows, which callers have locked; the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: OFFSET 0, one-element array, by_id, ctid.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
), marked AS (
    UPDATE rota.jobs AS j SET policies = coalesce(j.policies, '{}') || '{"awaited": true}'
      FROM input AS i
     WHERE rota.by_id(j.namespace) = ANY (ARRAY[i.namespace]) AND j.id = ANY (ARRAY[i.job_id])
       AND (j.policies -> 'awaited') IS NULL
), upcoming AS MATERIALIZED (
    SELECT r.place FROM input AS i
     CROSS JOIN LATERAL (SELECT u.ctid AS place FROM rota.upcoming_runs AS u
                          WHERE u.namespace = i.namespace AND u.job_id = i.job_id AND u.job_id <> u.id
                            AND (u.policies -> 'awaited') IS NULL FOR UPDATE SKIP LOCKED) AS r
), held AS MATERIALIZED (
    SELECT r.place FROM input AS i
     CROSS JOIN LATERAL (SELECT h.ctid AS place FROM rota.held_runs AS h
                          WHERE h.namespace = i.namespace AND h.job_id = i.job_id AND h.job_id <> h.id
                            AND (h.policies -> 'awaited') IS NULL FOR UPDATE SKIP LOCKED) AS r
), live AS MATERIALIZED (
    SELECT r.place FROM input AS i
     CROSS JOIN LATERAL (SELECT l.ctid AS place FROM rota.live_runs AS l
                          WHERE l.namespace = i.namespace AND l.job_id = i.job_id AND l.job_id <> l.id
                            AND (l.policies -> 'awaited') IS NULL FOR UPDATE SKIP LOCKED) AS r
), in_upcoming AS (
    UPDATE rota.upcoming_runs AS u SET policies = coalesce(u.policies, '{}') || '{"awaited": true}'
     WHERE u.ctid = ANY (ARRAY(SELECT place FROM upcoming))
), in_held AS (
    UPDATE rota.held_runs AS h SET policies = coalesce(h.policies, '{}') || '{"awaited": true}'
     WHERE h.ctid = ANY (ARRAY(SELECT place FROM held))
), in_live AS (
    UPDATE rota.live_runs AS l SET policies = coalesce(l.policies, '{}') || '{"awaited": true}'
     WHERE l.ctid = ANY (ARRAY(SELECT place FROM live))
)
SELECT (SELECT count(*) FROM input AS i
         CROSS JOIN LATERAL (SELECT FROM rota.upcoming_runs AS u
                              WHERE u.namespace = i.namespace AND u.job_id = i.job_id AND u.job_id <> u.id
                                AND (u.policies -> 'awaited') IS NULL OFFSET 0) AS r)
     + (SELECT count(*) FROM input AS i
         CROSS JOIN LATERAL (SELECT FROM rota.held_runs AS h
                              WHERE h.namespace = i.namespace AND h.job_id = i.job_id AND h.job_id <> h.id
                                AND (h.policies -> 'awaited') IS NULL OFFSET 0) AS r)
     + (SELECT count(*) FROM input AS i
         CROSS JOIN LATERAL (SELECT FROM rota.live_runs AS l
                              WHERE l.namespace = i.namespace AND l.job_id = i.job_id AND l.job_id <> l.id
                                AND (l.policies -> 'awaited') IS NULL OFFSET 0) AS r)
     - (SELECT count(*) FROM upcoming) - (SELECT count(*) FROM held) - (SELECT count(*) FROM live) AS passed_over
