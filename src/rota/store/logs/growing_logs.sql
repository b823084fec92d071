-- What attempts that go on have written and was not sent yet, a few chunks of each, at most `limit` in all.
-- Index: live_runs_claimed, then primary keys; the ids prune.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT l.namespace, l.id AS run_id, l.claim, coalesce(e.lines, 0) AS lines, c.number, c.attempt, c.body
  FROM rota.workers AS w
 CROSS JOIN LATERAL (
       SELECT l.namespace, l.id, l.claim FROM rota.live_runs AS l
        WHERE l.worker_id = w.id AND l.claimed_at < now() - :seconds::float8 * interval '1 second' OFFSET 0) AS l
  LEFT JOIN LATERAL (
       SELECT e.lines, e.chunk FROM rota.log_exports AS e
        WHERE e.namespace = l.namespace AND e.run_id = l.id AND e.claim = l.claim OFFSET 0) AS e ON true
 CROSS JOIN LATERAL (
       SELECT c.number, c.attempt, c.body FROM rota.log_chunks AS c
        WHERE c.namespace = l.namespace AND c.run_id = l.id AND c.claim = l.claim AND c.number >= coalesce(e.chunk, 0)
        ORDER BY c.number LIMIT 10) AS c
 LIMIT :limit
