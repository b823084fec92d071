-- Locks those of the named runs of a namespace that have not ended and that no other transaction holds, until the
-- transaction ends.
-- Index: primary keys.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: by_id.
WITH waiting AS (
    SELECT u.id FROM rota.upcoming_runs AS u
     WHERE rota.by_id(u.namespace) = :namespace AND u.id = ANY (:run_ids::uuid[]) FOR UPDATE SKIP LOCKED
), held AS (
    SELECT h.id FROM rota.held_runs AS h
     WHERE rota.by_id(h.namespace) = :namespace AND h.id = ANY (:run_ids::uuid[]) FOR UPDATE SKIP LOCKED
), live AS (
    SELECT l.id FROM rota.live_runs AS l
     WHERE rota.by_id(l.namespace) = :namespace AND l.id = ANY (:run_ids::uuid[]) FOR UPDATE SKIP LOCKED
)
SELECT id FROM waiting UNION ALL SELECT id FROM held UNION ALL SELECT id FROM live
