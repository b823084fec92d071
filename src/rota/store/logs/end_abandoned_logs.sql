-- Marks logs of past days (the days of their runs) that have no end as ended: their workers died. Leaves the logs of
-- runs that still run alone.
-- Index: primary keys, one day's partition at a time.
-- Locks: none
-- Idioms: OFFSET 0.
INSERT INTO rota.log_ends (namespace, run_id, claim)
SELECT DISTINCT c.namespace, c.run_id, c.claim
  FROM rota.log_chunks AS c
 WHERE c.run_id < rota.id_floor(now() - interval '1 day') AND c.number = 0
   AND NOT EXISTS (SELECT FROM rota.kept_logs AS k
                    WHERE k.namespace = c.namespace AND k.run_id = c.run_id AND k.claim = c.claim OFFSET 0)
   AND NOT EXISTS (SELECT FROM rota.live_runs AS l
                    WHERE l.namespace = c.namespace AND l.id = c.run_id AND l.claim = c.claim OFFSET 0)
ON CONFLICT (namespace, run_id, claim) DO NOTHING
