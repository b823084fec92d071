-- What a run wrote after a position, in order.
-- Index: primary key; the id prunes to one day. A run has few chunks: what it may write is limited.
-- Locks: none
-- Plan: custom
SELECT position, claim, attempt, body FROM rota.log_chunks
 WHERE namespace = :namespace AND run_id = :run_id AND position > :after
 ORDER BY position
 LIMIT :limit
