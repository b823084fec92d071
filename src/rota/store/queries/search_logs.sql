-- Chunks of recent logs that contain a text, from the latest run back. $1 namespace; run ids from $2; below the place $3 run
-- id, $4 claim, $5 number; $6 text, in small letters; $7 at most this many chunks are looked at; $8 owner of the runs, null
-- for any.
-- Gives back what was found (found), and where the look ended if there may be more (last).
-- Index: primary key of log_chunks, walked backwards; the ids prune to the days asked for.
WITH looked AS MATERIALIZED (
    SELECT run_id, claim, number, attempt, body,
           strpos(lower(body), $6) > 0
               AND ($8::text IS NULL
                    OR EXISTS (SELECT FROM rota.runs AS r WHERE r.namespace = $1 AND r.id = run_id AND r.owner = $8 OFFSET 0)) AS found,
           row_number() OVER (ORDER BY run_id DESC, claim DESC, number DESC) AS n
      FROM (SELECT * FROM rota.log_chunks
             WHERE namespace = $1 AND run_id >= $2 AND run_id <= $3 AND (run_id, claim, number) < ($3, $4, $5)
             ORDER BY run_id DESC, claim DESC, number DESC
             LIMIT $7) AS l
)
SELECT run_id, claim, number, attempt, CASE WHEN found THEN body END AS body, found, n >= $7 AS last
  FROM looked
 WHERE found OR n >= $7
 ORDER BY n
