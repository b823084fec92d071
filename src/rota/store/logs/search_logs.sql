-- Chunks of recent logs that contain a text (in small letters), from the latest run back: run ids from `first`, below
-- the chunk (run_id, claim, number); reads at most `chunks` chunks. Only this owner's runs, or all (null). Returns the
-- matches (found), and where the search stopped if there may be more (last).
-- Index: primary key of log_chunks, walked backwards; the ids prune to the days asked for.
-- Locks: none
-- Idioms: OFFSET 0.
WITH looked AS MATERIALIZED (
    SELECT run_id, claim, number, attempt, body,
           strpos(lower(body), :text) > 0
               AND (:owner::text IS NULL
                    OR EXISTS (SELECT FROM rota.runs AS r WHERE r.namespace = :namespace AND r.id = run_id
                                  AND r.owner = :owner OFFSET 0)) AS found,
           row_number() OVER (ORDER BY run_id DESC, claim DESC, number DESC) AS n
      FROM (SELECT * FROM rota.log_chunks
             WHERE namespace = :namespace AND run_id >= :first AND run_id <= :run_id
               AND (run_id, claim, number) < (:run_id, :claim, :number)
             ORDER BY run_id DESC, claim DESC, number DESC
             LIMIT :chunks) AS l
)
SELECT run_id, claim, number, attempt, CASE WHEN found THEN body END AS body, found, n >= :chunks AS last
  FROM looked
 WHERE found OR n >= :chunks
 ORDER BY n
