-- The latest dead letters by task and kind of error, most first: the first line of the error, with # for every number.
-- Of this owner, or of any (null).
-- Index: primary key of dead_letters, walked backwards; with an owner also that of finished_runs (pruned by id).
-- Locks: none
-- Idioms: OFFSET 0.
SELECT l.task, l.kind, count(*) AS dead_letters, min(l.buried_at) AS first_at, max(l.buried_at) AS last_at,
       (array_agg(l.run_id ORDER BY l.run_id DESC))[1] AS run_id
  FROM (SELECT d.task, d.run_id, d.buried_at,
               left(regexp_replace(split_part(left(coalesce(d.error, ''), 400), E'\n', 1), '\d+', '#', 'g'),
                    200) AS kind
          FROM rota.dead_letters AS d
         WHERE d.namespace = :namespace
           AND (:owner::text IS NULL
                OR EXISTS (SELECT FROM rota.finished_runs AS f
                            WHERE f.namespace = d.namespace AND f.id = d.run_id AND f.owner = :owner OFFSET 0))
         ORDER BY d.run_id DESC
         LIMIT :most_letters) AS l
 GROUP BY l.task, l.kind
 ORDER BY dead_letters DESC, last_at DESC
 LIMIT :most_groups
