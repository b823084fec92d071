-- A worker that stopped in good order leaves. Claims left in its name (there should be none) are reaped.
-- Index: primary key.
-- Locks: the worker's row FOR UPDATE, which conflicts with the FOR KEY SHARE of a claim under way, as in
-- mark_worker_gone: once it is gone, nothing comes.
WITH leaving AS (
    SELECT id FROM rota.workers WHERE id = :worker_id AND gone_at IS NULL FOR UPDATE
)
UPDATE rota.workers AS w SET gone_at = now(), gone_why = 'stopped', busy = 0
  FROM leaving WHERE w.id = leaving.id
