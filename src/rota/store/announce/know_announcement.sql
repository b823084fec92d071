-- Whether the tasks of this release are known; notes at most once a day that they still are. A row that has not been seen
-- for longer counts only if it could be marked: the sweeper may be deleting it.
-- Index: primary key.
-- Locks: the row, if it is written.
WITH kept AS (
    UPDATE rota.announced_tasks SET seen_at = now()
     WHERE namespace = :namespace AND app = :app AND version = :version AND digest = :digest
       AND seen_at < now() - interval '1 day'
    RETURNING 1
)
SELECT EXISTS (SELECT FROM kept)
    OR EXISTS (SELECT FROM rota.announced_tasks
                WHERE namespace = :namespace AND app = :app AND version = :version AND digest = :digest
                  AND seen_at >= now() - interval '1 day') AS known
