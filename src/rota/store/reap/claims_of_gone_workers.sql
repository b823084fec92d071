-- Runs still claimed by workers that are gone: why each is, since when the run was started, whether it may have been,
-- and the columns of claim.sql (without payload and checkpoint, which stay where they are).
-- Index: live_runs_claimed, one probe per gone worker that is not known to hold nothing.
-- Locks: the runs FOR UPDATE SKIP LOCKED, only to leave out those that another transaction holds: the report that
-- follows would wait for them, and with it all the others.
SELECT w.gone_why, extract(epoch FROM l.started_at)::float8 AS started,
       (l.started_at IS NOT NULL OR l.ready_at <= w.gone_at) AS may_have_started,
       l.namespace, l.id, l.job_id, l.claim, l.task, l.priority, NULL::text AS payload, l.payload_id, l.options,
       l.root_id,
       extract(epoch FROM l.nominal_at)::float8 AS nominal, extract(epoch FROM l.ready_at)::float8 AS ready,
       l.attempt, l.losses,
       extract(epoch FROM l.expires_at)::float8 AS expires, NULL::text AS checkpoint, l.pool
  FROM rota.workers AS w
 CROSS JOIN LATERAL (SELECT * FROM rota.live_runs AS l WHERE l.worker_id = w.id LIMIT :limit FOR UPDATE SKIP LOCKED) AS l
 WHERE w.gone_at IS NOT NULL AND NOT w.reaped
 LIMIT :limit
