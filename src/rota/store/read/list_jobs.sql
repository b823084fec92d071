-- Recurring jobs listed as of [first, before), latest first; `listed_as` is their place in lists. That is the id, which
-- begins with the time the job was made; the id of a job that is declared in code has no time (domain/ids.py), so the
-- time it was made takes the place of that. Filters: null for any.
-- Index: primary key; all jobs that are declared in code are read, few as they are.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT *
  FROM (
        (SELECT j.*, j.id AS listed_as
           FROM rota.jobs AS j
          WHERE j.namespace = :namespace AND j.id >= :first AND j.id < :before
            AND j.id >= '00000000-0001-0000-0000-000000000000'
            AND (:owner::text IS NULL OR j.owner = :owner) AND (:statuses::text[] IS NULL OR j.state = ANY (:statuses))
            AND (:name::text IS NULL OR j.name = :name) AND (:tag::text IS NULL OR :tag = ANY (j.tags))
            AND (:task::text IS NULL OR j.task = :task)
          ORDER BY j.id DESC
          LIMIT :limit)
        UNION ALL
        (SELECT *
           FROM (
                 SELECT j.*, (left(rota.id_floor(j.created_at)::text, 13) || substr(j.id::text, 14))::uuid AS listed_as
                   FROM rota.jobs AS j
                  WHERE j.namespace = :namespace AND j.id < '00000000-0001-0000-0000-000000000000'
                    AND (:owner::text IS NULL OR j.owner = :owner)
                    AND (:statuses::text[] IS NULL OR j.state = ANY (:statuses))
                    AND (:name::text IS NULL OR j.name = :name) AND (:tag::text IS NULL OR :tag = ANY (j.tags))
                    AND (:task::text IS NULL OR j.task = :task)
                 OFFSET 0
                ) AS declared
          WHERE declared.listed_as >= :first AND declared.listed_as < :before
          ORDER BY declared.listed_as DESC
          LIMIT :limit)
       ) AS listed
 ORDER BY listed_as DESC
 LIMIT :limit
