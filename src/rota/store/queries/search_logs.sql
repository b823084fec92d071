-- Chunks of recent logs that contain a text, by run from the latest back. $1 namespace; run ids in [$2, $3); $4 text, in
-- small letters; $5 at most this many chunks are looked at.
-- Gives back what was found, and the last run that was looked at wholly (null: there are no more).
-- Index: primary key of log_chunks, walked backwards; the ids prune to the days asked for.
WITH looked AS MATERIALIZED (
    SELECT run_id, claim, attempt, number, body FROM rota.log_chunks
     WHERE namespace = $1 AND run_id >= $2 AND run_id < $3
     ORDER BY run_id DESC, claim DESC, number DESC
     LIMIT $5
), last_seen AS (
    SELECT run_id FROM looked ORDER BY run_id LIMIT 1
), reached AS (
    SELECT CASE WHEN (SELECT count(*) FROM looked) >= $5
                THEN coalesce((SELECT run_id FROM looked WHERE run_id > (SELECT run_id FROM last_seen) ORDER BY run_id LIMIT 1),
                              (SELECT run_id FROM last_seen)) END AS run_id
)
SELECT reached.run_id AS reached, found.run_id, found.attempt, found.body
  FROM reached
  LEFT JOIN looked AS found
    ON strpos(lower(found.body), $4) > 0 AND (reached.run_id IS NULL OR found.run_id >= reached.run_id)
 ORDER BY found.run_id DESC, found.attempt, found.claim, found.number
