-- Logs that are not in object storage yet, of runs with ids from `first` to `last`, latest runs first: those of attempts
-- that go on, and those that wait for their copy. Only this owner's, or all (null). At most `limit`.
-- Index: live_runs_claimed, the primary keys of log_ends and log_chunks; the ids prune history.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT f.run_id, f.claim
  FROM (SELECT l.id AS run_id, l.claim
          FROM rota.workers AS w
         CROSS JOIN LATERAL (
               SELECT l.id, l.claim FROM rota.live_runs AS l
                WHERE l.worker_id = w.id AND l.namespace = :namespace AND l.id >= :first AND l.id <= :last
                  AND (:owner::text IS NULL OR l.owner = :owner) OFFSET 0) AS l
         WHERE EXISTS (SELECT FROM rota.log_chunks AS c
                        WHERE c.namespace = :namespace AND c.run_id = l.id AND c.claim = l.claim
                          AND c.run_id >= :first AND c.run_id <= :last OFFSET 0)
        UNION
        (SELECT e.run_id, e.claim FROM rota.log_ends AS e
          WHERE e.namespace = :namespace AND e.run_id >= :first AND e.run_id <= :last
            AND (:owner::text IS NULL
                 OR EXISTS (SELECT FROM rota.runs AS r
                             WHERE r.namespace = :namespace AND r.id = e.run_id AND r.id >= :first AND r.id <= :last
                               AND r.owner = :owner OFFSET 0))
          ORDER BY e.run_id DESC, e.claim DESC
          LIMIT :limit)) AS f
 ORDER BY f.run_id DESC, f.claim DESC
 LIMIT :limit
