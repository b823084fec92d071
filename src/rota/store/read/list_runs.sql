-- Runs with ids in [first, before) (time range and cursor), latest planned first; `one_shots`: only runs that are their
-- own job. Filters: null for any. Place by place, so that one whose statuses are not asked for is not read at all:
-- `status = failed` must not walk over millions of upcoming runs.
-- Index: primary keys in the order of ids.
-- Locks: none
SELECT * FROM (
    (SELECT * FROM rota.runs
      WHERE place = 'upcoming' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['scheduled', 'retrying'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'held' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['blocked', 'scheduled', 'retrying'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'live' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['queued', 'running'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'finished' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['success', 'failed', 'cancelled',
                                    'skipped'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
) AS r
 ORDER BY id DESC
 LIMIT :limit
