-- Claims ready runs for a worker: due ones first, by rank, then those due within the lookahead.
-- $1 worker id; $2 lanes; $3 room; $4 lookahead (interval).
-- Index: live_runs_ready, one range per lane that begins at its oldest entry and stops at the room.
-- Locks: the worker's row FOR KEY SHARE, so that a reaper that marks it gone comes wholly before or wholly
-- after; the runs FOR UPDATE SKIP LOCKED, so that claimers never wait for each other.
-- Rank is ready_at minus five minutes per level of priority: all age alike, nothing is re-sorted.
WITH me AS MATERIALIZED (
    SELECT id FROM rota.workers WHERE id = $1 AND gone_at IS NULL FOR KEY SHARE
), picked AS MATERIALIZED (
    SELECT r.namespace, r.id
      FROM me, unnest($2::bigint[]) AS lanes (lane)
     CROSS JOIN LATERAL (
           SELECT l.namespace, l.id, l.ready_at, l.priority
             FROM rota.live_runs AS l
            WHERE l.lane = lanes.lane AND l.worker_id IS NULL AND l.ready_at <= now() + $4::interval
            ORDER BY l.ready_at
            LIMIT $3
              FOR UPDATE SKIP LOCKED
           ) AS r
     ORDER BY r.ready_at > now(), r.ready_at - r.priority * interval '5 minutes'
     LIMIT $3
)
UPDATE rota.live_runs AS l
   SET worker_id = $1, claim = nextval('rota.claim_numbers'), claimed_at = now(),
       started_at = NULL, progress = NULL, progress_note = NULL
  FROM picked AS p
 WHERE l.namespace = p.namespace AND l.id = p.id
RETURNING l.namespace, l.id, l.job_id, l.claim, l.name, l.owner, l.task, l.pool, l.priority, l.payload,
          l.payload_id, l.options, l.root_id, l.nominal_at, l.ready_at, l.attempt, l.losses
