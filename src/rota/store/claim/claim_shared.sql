-- Claims ready runs for a worker that several namespaces share. It works like claim.sql, but rank decides only within a
-- namespace. Run by run, the room goes to the namespace that holds least for its weight, due runs before those of the
-- lookahead, and no namespace gets more than `most`. `tenants` numbers the namespace of each lane; `held`, `weights`
-- and `most` are that namespace's. It is a separate statement, because a common one makes small claims of workers with
-- one namespace a tenth slower.
-- Index: live_runs_ready, one range per lane that begins at its position.
-- Locks: the worker's row FOR KEY SHARE; the runs FOR UPDATE SKIP LOCKED.
-- Idioms: ctid, from position, computed apart for rls.
WITH me AS MATERIALIZED (
    SELECT id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint << 21 AS moment
      FROM rota.workers WHERE id = :worker_id AND gone_at IS NULL FOR KEY SHARE
), lanes AS MATERIALIZED (
    SELECT lane, least(to_timestamp(begin_at), now() - interval '250 ms') AS begin_at, tenant, held, weight, most
      FROM me, unnest(:lanes::bigint[], :begin_at::float8[], :tenants::integer[], :held::integer[], :weights::integer[],
                      :most::integer[]) AS i (lane, begin_at, tenant, held, weight, most)
), found AS MATERIALIZED (
    SELECT lanes.lane, lanes.tenant, lanes.held, lanes.weight, lanes.most, r.place, r.ready_at > now() AS ahead,
           r.ready_at - r.priority * interval '5 minutes' AS rank
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
    SELECT tenant, bool_or(ahead) AS ahead, max(rank) AS rank
      FROM found GROUP BY lane, tenant HAVING count(*) >= :portion
), picked AS MATERIALIZED (
    SELECT place
      FROM (SELECT place, ahead, rank, weight, most,
                   held + row_number() OVER (PARTITION BY tenant ORDER BY ahead, rank) AS turn
              FROM found AS f
             WHERE NOT EXISTS (SELECT FROM sure AS s
                                WHERE s.tenant = f.tenant AND (f.ahead, f.rank) > (s.ahead, s.rank))) AS t
     WHERE turn <= most
     ORDER BY ahead, turn::float8 / weight, rank
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
