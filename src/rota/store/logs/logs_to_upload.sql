-- Logs that ended and are not in object storage yet, oldest first, with their text: at most `limit` attempts, and about
-- `size` bytes.
-- Index: log_ends_oldest, then the primary key of log_chunks.
-- Locks: none
-- Idioms: OFFSET 0.
WITH ended AS MATERIALIZED (
    SELECT e.namespace, e.run_id, e.claim, e.ended_at, c.size
      FROM (SELECT * FROM rota.log_ends ORDER BY ended_at LIMIT :limit) AS e
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(octet_length(c.body)), 0) AS size FROM rota.log_chunks AS c
            WHERE c.namespace = e.namespace AND c.run_id = e.run_id AND c.claim = e.claim OFFSET 0) AS c
), chosen AS MATERIALIZED (
    SELECT *, sum(size) OVER (ORDER BY ended_at, run_id, claim) - size AS before FROM ended
)
SELECT e.namespace, e.run_id, e.claim, c.attempt, c.position, c.body
  FROM chosen AS e
 CROSS JOIN LATERAL (
       SELECT min(c.attempt) AS attempt, min(c.position) AS position, string_agg(c.body, '' ORDER BY c.number) AS body
         FROM rota.log_chunks AS c
        WHERE c.namespace = e.namespace AND c.run_id = e.run_id AND c.claim = e.claim OFFSET 0) AS c
 WHERE e.before < :size
