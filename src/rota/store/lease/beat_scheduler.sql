-- A scheduler's heartbeat, and what it watches, in one statement: who owns which shards at which epochs (a row for each
-- owner, and one for the shards that have none), how often each scheduler and each worker has beaten, and which workers
-- are gone and not known to hold nothing. Makes the scheduler's row if it is not there. All but that row is read as it
-- was when the beat was sent.
-- Index: primary key; the others are small tables.
-- Locks: the scheduler's row.
WITH beaten AS (
    INSERT INTO rota.schedulers (id, host, pid) VALUES (:scheduler_id, :host, :pid)
    ON CONFLICT (id) DO UPDATE SET beat = schedulers.beat + 1, beat_at = clock_timestamp(),
                                   lost_at = NULL, clock_skew = :clock_skew::float8
    RETURNING clock_timestamp() AS database_time
)
SELECT 'shards' AS kind, l.owner AS id, NULL::bigint AS beat, array_agg(l.shard) AS shards, array_agg(l.epoch) AS epochs,
       NULL::interval AS lease, NULL::boolean AS gone, NULL::timestamptz AS database_time
  FROM rota.shard_leases AS l GROUP BY l.owner
UNION ALL
SELECT 'scheduler', s.id, s.beat, NULL, NULL, NULL, NULL, NULL FROM rota.schedulers AS s
UNION ALL
SELECT 'worker', w.id, w.beat, NULL, NULL, w.lease, w.gone_at IS NOT NULL, NULL
  FROM rota.workers AS w WHERE w.gone_at IS NULL OR NOT w.reaped
UNION ALL
SELECT 'beat', NULL, NULL, NULL, NULL, NULL, NULL, b.database_time FROM beaten AS b
