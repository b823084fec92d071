-- Runs as in list_runs that match filters (null for any), at least one of which has labels: statuses alone only without the
-- usual ones (labels.sql). Place by place, so that one whose statuses are not asked for is
-- not read at all.
-- In the order of ids, `walk` runs are read of upcoming and finished ones: what is frequent is found so. If they don't
-- fill the page, those before them are looked up by their labels: upcoming ones at once, finished ones period by period,
-- latest first, until the page is full. What a page costs therefore depends on the runs that match and on the time asked
-- for, not on the runs that don't match.
-- Index: primary keys, of an owner upcoming_runs_owned, in the order of ids; upcoming_runs_labelled,
-- finished_runs_labelled. What the primary key knows is compared apart from them, so that it does
-- not join in. Of finished runs the id is compared beside the labels, which finds the day; there the labels are compared
-- in several ways (`some` and `again` say nothing new), so that the index looks as good as it is.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
WITH upcoming AS MATERIALIZED (
    SELECT *, (NOT :one_shots::boolean OR job_id = id) AND (:owner::text IS NULL OR owner = :owner)
              AND (:statuses::text[] IS NULL OR status = ANY (:statuses)) AND (:name::text IS NULL OR name = :name)
              AND (:tag::text IS NULL OR :tag = ANY (tags)) AND (:task::text IS NULL OR task = :task) AS fits
      FROM rota.runs
     WHERE place = 'upcoming' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['scheduled', 'retrying'])
       AND namespace = :namespace AND id >= :first AND id < :before
       AND (:owner::text IS NULL OR rota.label('', namespace, 1, owner) = rota.label('', :namespace, 1, :owner))
     ORDER BY id DESC LIMIT :walk
), upcoming_end AS MATERIALIZED (
    SELECT id FROM upcoming
     WHERE (SELECT count(*) FROM upcoming) = :walk AND (SELECT count(*) FROM upcoming WHERE fits) < :limit
     ORDER BY id LIMIT 1
), upcoming_before AS (
    SELECT r.*
      FROM upcoming_end AS reached
     CROSS JOIN LATERAL (
           SELECT *, true AS fits
             FROM rota.runs
            WHERE place = 'upcoming'
              AND (coalesce(:owner, :task, :name, :tag) IS NULL
                   OR rota.labels('', namespace, owner, task, name, tags, status) @> array_remove(ARRAY[
                          rota.label('', :namespace, 1, :owner), rota.label('', :namespace, 2, :task),
                          rota.label('', :namespace, 3, :name), rota.label('', :namespace, 4, :tag)], NULL))
              AND (coalesce('scheduled' = ANY (:statuses), true)
                   OR rota.labels('', namespace, owner, task, name, tags, status)
                      && ARRAY[rota.label('', :namespace, 5, 'retrying')])
           OFFSET 0) AS r
     WHERE r.namespace = :namespace AND r.id >= :first AND r.id < reached.id
       AND (NOT :one_shots::boolean OR r.job_id = r.id) AND (:owner::text IS NULL OR r.owner = :owner)
       AND (:statuses::text[] IS NULL OR r.status = ANY (:statuses)) AND (:name::text IS NULL OR r.name = :name)
       AND (:tag::text IS NULL OR :tag = ANY (r.tags)) AND (:task::text IS NULL OR r.task = :task)
     ORDER BY r.id DESC LIMIT :limit
), finished AS MATERIALIZED (
    SELECT *, (NOT :one_shots::boolean OR job_id = id) AND (:owner::text IS NULL OR owner = :owner)
              AND (:statuses::text[] IS NULL OR status = ANY (:statuses)) AND (:name::text IS NULL OR name = :name)
              AND (:tag::text IS NULL OR :tag = ANY (tags)) AND (:task::text IS NULL OR task = :task) AS fits
      FROM rota.runs
     WHERE place = 'finished' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['success', 'failed', 'cancelled',
                                   'skipped'])
       AND namespace = :namespace AND id >= :first AND id < :before
     ORDER BY id DESC LIMIT :walk
), finished_end AS MATERIALIZED (
    SELECT id, (SELECT f.id FROM rota.finished_runs AS f WHERE f.namespace = :namespace AND f.id >= :first AND f.id < :before
                 ORDER BY f.id LIMIT 1) AS oldest
      FROM finished
     WHERE (SELECT count(*) FROM finished) = :walk AND (SELECT count(*) FROM finished WHERE fits) < :limit
     ORDER BY id LIMIT 1
), finished_before AS (
    -- Periods come latest first, and a nested loop keeps their order.
    SELECT r.*
      FROM finished_end AS reached
     CROSS JOIN LATERAL generate_series(('x' || left(reached.id::text, 7))::bit(28)::integer,
                                        ('x' || left(reached.oldest::text, 7))::bit(28)::integer, -1) AS number
     CROSS JOIN LATERAL (SELECT lpad(to_hex(number), 7, '0') AS digits OFFSET 0) AS named
     CROSS JOIN LATERAL (
           SELECT array_remove(ARRAY[
                      rota.label(digits, :namespace, 1, :owner), rota.label(digits, :namespace, 2, :task),
                      rota.label(digits, :namespace, 3, :name), rota.label(digits, :namespace, 4, :tag)], NULL) AS every,
                  array_remove(ARRAY[
                      CASE WHEN 'failed' = ANY (:statuses) THEN rota.label(digits, :namespace, 5, 'failed') END,
                      CASE WHEN 'cancelled' = ANY (:statuses) THEN rota.label(digits, :namespace, 5, 'cancelled') END,
                      CASE WHEN 'skipped' = ANY (:statuses) THEN rota.label(digits, :namespace, 5, 'skipped') END],
                      NULL) AS statuses
           OFFSET 0) AS asked
     CROSS JOIN LATERAL (
           SELECT rpad(digits, 32, '0')::uuid AS first, rpad(digits, 32, 'f')::uuid AS last, every, statuses,
                  CASE WHEN coalesce(:owner, :task, :name, :tag) IS NULL THEN statuses ELSE every END AS some,
                  CASE WHEN coalesce(:owner, :task, :name, :tag) IS NULL THEN statuses ELSE every END AS again
           OFFSET 0) AS period
     CROSS JOIN LATERAL (
           SELECT r.*
             FROM (SELECT *, true AS fits
                     FROM rota.runs
                    WHERE place = 'finished'
                      -- Only the day that the period is in is looked at.
                      AND id >= :first AND id < :before AND id >= period.first AND id <= period.last
                      AND rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status) && period.some
                      AND rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status) && period.again
                      AND (coalesce(:owner, :task, :name, :tag) IS NULL
                           OR rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status) @> period.every)
                      AND (coalesce('success' = ANY (:statuses), true)
                           OR rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status)
                              && period.statuses)
                   OFFSET 0) AS r
            WHERE r.namespace = :namespace AND r.id < reached.id
              AND (NOT :one_shots::boolean OR r.job_id = r.id) AND (:owner::text IS NULL OR r.owner = :owner)
              AND (:statuses::text[] IS NULL OR r.status = ANY (:statuses)) AND (:name::text IS NULL OR r.name = :name)
              AND (:tag::text IS NULL OR :tag = ANY (r.tags)) AND (:task::text IS NULL OR r.task = :task)
            ORDER BY r.id DESC LIMIT :limit) AS r
     LIMIT :limit
)
SELECT * FROM (
    SELECT * FROM upcoming WHERE fits
    UNION ALL
    SELECT * FROM upcoming_before
    UNION ALL
    (SELECT *, true FROM rota.runs
      WHERE place = 'held'
        AND (:statuses::text[] IS NULL OR :statuses && ARRAY['blocked', 'scheduled', 'retrying', 'paused'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner)
        AND (:statuses::text[] IS NULL OR status = ANY (:statuses) OR gate = 'pause' AND 'paused' = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT *, true FROM rota.runs
      WHERE place = 'live' AND (:statuses::text[] IS NULL OR :statuses && ARRAY['queued', 'running'])
        AND namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner) AND (:statuses::text[] IS NULL OR status = ANY (:statuses))
        AND (:name::text IS NULL OR name = :name) AND (:tag::text IS NULL OR :tag = ANY (tags))
        AND (:task::text IS NULL OR task = :task)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    SELECT * FROM finished WHERE fits
    UNION ALL
    SELECT * FROM finished_before
) AS r
 ORDER BY id DESC
 LIMIT :limit
