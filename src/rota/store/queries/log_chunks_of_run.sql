-- What a run wrote after a position, in order. $1 namespace; $2 run id; $3 position; $4 at most this many.
-- Index: primary key; the id prunes to one day. A run has few chunks: what it may write is limited.
SELECT position, claim, attempt, body FROM rota.log_chunks
 WHERE namespace = $1 AND run_id = $2 AND position > $3
 ORDER BY position
 LIMIT $4
