-- Runs with ids in [first, before) (time range and cursor), latest planned first; `owner`: null for any; `one_shots`: only
-- runs that are their own job. With other filters, see search_runs.
-- Index: primary keys in the order of ids; of an owner upcoming_runs_owned and finished_runs_owned, in the same order.
-- Locks: none
-- Plan: custom
SELECT * FROM (
    (SELECT * FROM rota.runs
      WHERE place = 'upcoming' AND namespace = :namespace AND id >= :first AND id < :before
        AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner AND rota.label('', namespace, 1, owner)
                                                        = rota.label('', :namespace, 1, :owner))
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place IN ('held', 'live') AND namespace = :namespace AND id >= :first AND id < :before
        AND (NOT :one_shots::boolean OR job_id = id) AND (:owner::text IS NULL OR owner = :owner)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'finished' AND namespace = :namespace AND id >= :first AND id < :before
        AND (NOT :one_shots::boolean OR job_id = id)
        AND (:owner::text IS NULL OR owner = :owner AND rota.label('', namespace, 1, owner)
                                                        = rota.label('', :namespace, 1, :owner))
      ORDER BY id DESC LIMIT :limit)
) AS r
 ORDER BY id DESC
 LIMIT :limit
