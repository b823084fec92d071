-- Housekeeping on small tables: expired idempotency keys (at most $1), workers gone that hold nothing any more (noted,
-- so that the reaper need not look again; after an hour forgotten), schedulers silent for a day.
WITH keys AS (
    DELETE FROM rota.submission_keys
     WHERE ctid = ANY (ARRAY(SELECT ctid FROM rota.submission_keys
                              WHERE expires_at < now() ORDER BY expires_at LIMIT $1
                                FOR UPDATE SKIP LOCKED))
    RETURNING 1
), emptied AS (
    UPDATE rota.workers AS w SET reaped = true
     WHERE w.gone_at IS NOT NULL AND NOT w.reaped
       AND NOT EXISTS (SELECT FROM rota.live_runs AS l WHERE l.worker_id = w.id OFFSET 0)
), old_workers AS (
    DELETE FROM rota.workers WHERE gone_at < now() - interval '1 hour' AND reaped
), old_schedulers AS (
    DELETE FROM rota.schedulers AS s
     WHERE s.beat_at < now() - interval '1 day'
       AND NOT EXISTS (SELECT FROM rota.shard_leases AS l WHERE l.owner = s.id)
)
SELECT count(*) FROM keys
