-- Skips runs that no worker took in time: live or held -> finished (skipped); at most `limit` per table and shard,
-- or only these of them (`only`; null: all).
-- A run that is moving now is left for the next round. `claim IS NULL`, because `worker_id IS NULL` would allow a plan
-- that reads the index of all ready runs once per shard.
-- Index: live_runs_expiring, held_runs_expiring.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: ctid.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
), late_live AS MATERIALIZED (
    SELECT r.place FROM leased
     CROSS JOIN LATERAL (
           SELECT l.ctid AS place FROM rota.live_runs AS l
            WHERE l.shard = leased.shard AND l.claim IS NULL AND l.expires_at IS NOT NULL AND l.expires_at < now()
              AND (:only::uuid[] IS NULL OR l.id = ANY (:only::uuid[]))
            ORDER BY l.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED) AS r
), late_held AS MATERIALIZED (
    SELECT r.place FROM leased
     CROSS JOIN LATERAL (
           SELECT h.ctid AS place FROM rota.held_runs AS h
            WHERE h.shard = leased.shard AND h.expires_at IS NOT NULL AND h.expires_at < now()
              AND (:only::uuid[] IS NULL OR h.id = ANY (:only::uuid[]))
            ORDER BY h.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED) AS r
), from_live AS (
    DELETE FROM rota.live_runs AS l WHERE l.ctid = ANY (ARRAY(SELECT place FROM late_live)) RETURNING {l.run}
), from_held AS (
    DELETE FROM rota.held_runs AS h WHERE h.ctid = ANY (ARRAY(SELECT place FROM late_held)) RETURNING {h.run}
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'expired' FROM (SELECT * FROM from_live UNION ALL SELECT *
                                                              FROM from_held) AS t
     WHERE policies IS NOT NULL
)
INSERT INTO rota.finished_runs ({run}, status, finished_at, reason)
SELECT {run}, 'skipped', now(), :reason::text FROM (SELECT * FROM from_live UNION ALL SELECT * FROM from_held) AS t
RETURNING id
