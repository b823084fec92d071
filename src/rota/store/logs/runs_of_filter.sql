-- Which of these runs, with ids from `first` to `last`, a filter lets through; null: any.
-- Index: primary keys; the ids prune history.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT r.id
  FROM unnest(:run_ids::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT r.id, r.job_id, r.owner, r.name, r.task, r.pool, r.tags FROM rota.runs AS r
        WHERE r.namespace = :namespace AND r.id = i.id AND r.id >= :first AND r.id <= :last OFFSET 0) AS r
 WHERE (:owner::text IS NULL OR r.owner = :owner)
   AND (:task::text IS NULL OR r.task = :task)
   AND (:job_id::uuid IS NULL OR r.job_id = :job_id)
   AND (:pool::text IS NULL OR r.pool = :pool)
   AND (:name::text IS NULL OR r.name = :name)
   AND (:tag::text IS NULL OR r.tags @> ARRAY[:tag::text])
