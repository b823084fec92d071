-- Recurring jobs. :namespace namespace; ids in [:first, :before); filters, null for any: :owner owner, :statuses states, :name name, :tag tag, :task task;
-- :limit limit. Index: primary key.
SELECT * FROM rota.jobs
 WHERE namespace = :namespace AND id >= :first AND id < :before
   AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR state = ANY (:statuses))
   AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags)) AND (:task::text IS NULL OR task = :task)
 ORDER BY id DESC
 LIMIT :limit
