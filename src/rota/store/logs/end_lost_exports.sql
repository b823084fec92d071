-- Marks logs as ended that are in object storage and were sent in part: another process had sent of them while the copy
-- was made, and noted it afterwards.
-- Index: none: a row for each attempt that goes on and writes; the primary key of kept_logs.
-- Locks: the rows.
-- Idioms: OFFSET 0.
UPDATE rota.log_exports AS e SET ended_at = now()
 WHERE e.ended_at IS NULL
   AND EXISTS (SELECT FROM rota.kept_logs AS k
                WHERE k.namespace = e.namespace AND k.run_id = e.run_id AND k.claim = e.claim OFFSET 0)
