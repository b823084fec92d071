-- Declares a worker lost if its beat is still the one that was watched. No row back: it has beaten, another scheduler was
-- first, or its row is locked; the caller looks again.
-- Index: primary key.
-- Locks: the worker's row FOR UPDATE SKIP LOCKED, which conflicts with the FOR KEY SHARE of a claim under way: the claim
-- is wholly before or finds the worker gone, and one whose answer is not read keeps no scheduler waiting.
WITH watched AS (
    SELECT id FROM rota.workers WHERE id = :worker_id AND beat = :beat AND gone_at IS NULL FOR UPDATE SKIP LOCKED
)
UPDATE rota.workers AS w SET gone_at = now(), gone_why = :why, busy = 0
  FROM watched WHERE w.id = watched.id
RETURNING w.id
