-- Lets admission try runs again that were set aside because of an error; at most `limit` per shard and gate.
-- Index: held_runs_gate.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: ctid.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
), found AS MATERIALIZED (
    SELECT r.place FROM leased
     CROSS JOIN (VALUES ('new'), ('dependent')) AS arrival (gate)
     CROSS JOIN LATERAL (
           SELECT h.ctid AS place FROM rota.held_runs AS h
            WHERE h.gate = arrival.gate AND h.shard = leased.shard AND h.gate_key IS NOT NULL
            ORDER BY h.run_at
            LIMIT :limit
              FOR UPDATE SKIP LOCKED
           ) AS r
)
UPDATE rota.held_runs AS h SET gate_key = NULL WHERE h.ctid = ANY (ARRAY(SELECT place FROM found))
RETURNING h.id
