-- Claims ready runs for a worker: due ones first, by rank, then those due within the lookahead. `begin_at`: where to
-- begin in each lane (seconds since the epoch); `portion`: at most this many of each lane. A lane that gives as many
-- may have more, so nothing is taken that goes after the last it gave: callers repeat. Gives the runs, each with its
-- lane, how far that lane has been emptied by taking it, and how many were locked.
-- Rank is ready_at minus five minutes per level of priority: all age alike, nothing is re-sorted.
-- A claim number is the moment in milliseconds, and below it 21 bits of a sequence: a database that was restored to an
-- earlier moment, or a replica that took over without the last transactions, has a sequence that went back, and must
-- not give again what workers still hold from before.
-- Index: live_runs_ready, one range per lane that begins at its position (never in the future: clocks go back). The
-- rows found are updated by ctid: they are locked, so they can't move; one that moved just before is left for the next
-- look.
-- Locks: the worker's row FOR KEY SHARE, so that a reaper that marks it gone comes wholly before or wholly after; the
-- runs FOR UPDATE SKIP LOCKED, so that claimers never wait for each other.
-- Idioms: ctid, from position, computed apart for rls.
WITH me AS MATERIALIZED (
    SELECT id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint << 21 AS moment
      FROM rota.workers WHERE id = :worker_id AND gone_at IS NULL FOR KEY SHARE
), lanes AS MATERIALIZED (
    SELECT lane, least(to_timestamp(begin_at), now() - interval '250 ms') AS begin_at
      FROM me, unnest(:lanes::bigint[], :begin_at::float8[]) AS i (lane, begin_at)
), found AS MATERIALIZED (
    SELECT lanes.lane, r.place, r.ready_at > now() AS ahead, r.ready_at - r.priority * interval '5 minutes' AS rank
      FROM lanes
     CROSS JOIN LATERAL (
           SELECT l.ctid AS place, l.ready_at, l.priority
             FROM rota.live_runs AS l
            WHERE l.lane = lanes.lane AND l.worker_id IS NULL
              AND l.ready_at >= lanes.begin_at AND l.ready_at <= now() + :lookahead::interval
            ORDER BY l.ready_at
            LIMIT :portion
              FOR UPDATE SKIP LOCKED
           ) AS r
), sure AS MATERIALIZED (
    SELECT bool_or(ahead) AS ahead, max(rank) AS rank FROM found GROUP BY lane HAVING count(*) >= :portion
     ORDER BY 1, 2 LIMIT 1
), picked AS MATERIALIZED (
    SELECT place FROM found
     WHERE (ahead, rank) <= (SELECT ahead, rank FROM sure) OR NOT EXISTS (SELECT FROM sure)
     ORDER BY ahead, rank
     LIMIT :room
)
UPDATE rota.live_runs AS l
   SET worker_id = :worker_id, claim = (SELECT moment FROM me) + nextval('rota.claim_numbers') % 2097152,
       claimed_at = now(),
       started_at = NULL, progress = NULL, progress_note = NULL
 WHERE l.ctid = ANY (ARRAY(SELECT place FROM picked))
RETURNING l.lane, extract(epoch FROM least(l.ready_at, now()))::float8 AS reached,
          (SELECT count(*) FROM found) AS locked,
          l.namespace, l.id, l.job_id, l.claim, l.task, l.priority, l.payload, l.payload_id, l.options, l.root_id,
          extract(epoch FROM l.nominal_at)::float8, extract(epoch FROM l.ready_at)::float8, l.attempt, l.losses,
          extract(epoch FROM l.expires_at)::float8, l.checkpoint, l.pool
