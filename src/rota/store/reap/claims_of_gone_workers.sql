-- Runs still claimed by workers that are gone. :limit at most this many.
-- Index: live_runs_claimed, one probe per gone worker that is not known to hold nothing.
SELECT l.namespace, l.id, l.claim, l.options, l.attempt, l.losses, l.pool, w.gone_why,
       extract(epoch FROM l.started_at)::float8 AS started, (l.started_at IS NOT NULL OR l.ready_at <= w.gone_at) AS may_have_started
  FROM rota.workers AS w
 CROSS JOIN LATERAL (SELECT * FROM rota.live_runs AS l WHERE l.worker_id = w.id LIMIT :limit) AS l
 WHERE w.gone_at IS NOT NULL AND NOT w.reaped
 LIMIT :limit
