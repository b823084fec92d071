-- Removes figures and what they were made from when their time is over; of figures at most `limit` rows, oldest first.
-- Index: figures_in_time, the primary keys of samples and task_tallies.
-- Locks: the rows it deletes; figures that another process deletes are passed over.
-- Idioms: ctid.
WITH old_samples AS (
    DELETE FROM rota.samples WHERE at < now() - interval '15 minutes'
), old_tallies AS (
    DELETE FROM rota.task_tallies WHERE at < now() - interval '15 minutes'
), old_figures AS (
    DELETE FROM rota.figures
     WHERE ctid = ANY (ARRAY(SELECT f.ctid
                               FROM (VALUES (60, :minutes_kept::interval), (3600, :hours_kept::interval)) AS k (step, kept)
                              CROSS JOIN LATERAL (
                                    SELECT ctid FROM rota.figures
                                     WHERE step = k.step AND at < now() - k.kept
                                     ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED) AS f))
    RETURNING 1
)
SELECT count(*) FROM old_figures
