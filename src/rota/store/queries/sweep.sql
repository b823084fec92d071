-- Housekeeping on small tables: expired idempotency keys (at most $1), workers gone for an hour that hold no
-- claim, schedulers silent for a day.
WITH keys AS (
    DELETE FROM rota.submission_keys
     WHERE (namespace, kind, key) IN (SELECT namespace, kind, key FROM rota.submission_keys
                                       WHERE expires_at < now() ORDER BY expires_at LIMIT $1
                                         FOR UPDATE SKIP LOCKED)
    RETURNING 1
), old_workers AS (
    DELETE FROM rota.workers AS w
     WHERE w.gone_at < now() - interval '1 hour'
       AND NOT EXISTS (SELECT FROM rota.live_runs AS l WHERE l.worker_id = w.id)
), old_schedulers AS (
    DELETE FROM rota.schedulers AS s
     WHERE s.beat_at < now() - interval '1 day'
       AND NOT EXISTS (SELECT FROM rota.shard_leases AS l WHERE l.owner = s.id)
)
SELECT count(*) FROM keys
