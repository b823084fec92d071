-- Marks the logs of attempts that were lost with their worker as ended, a minute later: a worker that was only slow may
-- still send some lines. Looks at runs of the last two days; end_abandoned_logs finds the others.
-- Index: primary keys, pruned by id; attempts has rows for what did not succeed.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
INSERT INTO rota.log_ends (namespace, run_id, claim)
SELECT a.namespace, a.run_id, a.claim
  FROM rota.attempts AS a
 WHERE a.run_id >= :first AND a.outcome = 'lost'
   AND a.finished_at > now() - interval '2 days' AND a.finished_at < now() - interval '1 minute'
   AND EXISTS (SELECT FROM rota.log_chunks AS c
                WHERE c.namespace = a.namespace AND c.run_id = a.run_id AND c.claim = a.claim AND c.number = 0
                  AND c.run_id >= :first OFFSET 0)
   AND NOT EXISTS (SELECT FROM rota.kept_logs AS k
                    WHERE k.namespace = a.namespace AND k.run_id = a.run_id AND k.claim = a.claim
                      AND k.run_id >= :first OFFSET 0)
ON CONFLICT (namespace, run_id, claim) DO NOTHING
