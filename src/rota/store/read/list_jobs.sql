-- Recurring jobs with ids in [first, before), latest first. Filters: null for any.
-- Index: primary key.
-- Locks: none
SELECT * FROM rota.jobs
 WHERE namespace = :namespace AND id >= :first AND id < :before
   AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR state = ANY (:statuses))
   AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
   AND (:task::text IS NULL OR task = :task)
 ORDER BY id DESC
 LIMIT :limit
