-- Keeps a signal for a workflow run that is open, with a note to its conductor. `state`: sent; ended: the workflow run has
-- ended; full: it has :most signals that no wait took; taken: the idempotency key (null: none) was used before.
-- Index: primary keys, flow_signals_of_flow.
-- Locks: the workflow run FOR SHARE, so that it does not end meanwhile; the key.
WITH flow AS MATERIALIZED (
    SELECT w.namespace, w.id, w.shard FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.id = :flow AND w.ended_at IS NULL
       FOR SHARE
), room AS MATERIALIZED (
    SELECT f.* FROM flow AS f
     WHERE (SELECT count(*) FROM rota.flow_signals AS s WHERE s.namespace = f.namespace AND s.flow = f.id) < :most
), keyed AS (
    INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
    SELECT r.namespace, 'idempotency', :key, :request_hash::bytea, :answer, now() + interval '24 hours'
      FROM room AS r WHERE :key::text IS NOT NULL
    ON CONFLICT (namespace, kind, key) DO UPDATE
       SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE submission_keys.expires_at < now()
    RETURNING key
), sent AS (
    INSERT INTO rota.flow_signals (namespace, flow, name, payload, sent_by)
    SELECT r.namespace, r.id, :name, :payload, :sent_by FROM room AS r
     WHERE :key::text IS NULL OR EXISTS (SELECT FROM keyed)
    RETURNING flow
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM room WHERE EXISTS (SELECT FROM sent)
)
SELECT CASE WHEN EXISTS (SELECT FROM sent) THEN 'sent' WHEN NOT EXISTS (SELECT FROM flow) THEN 'ended'
            WHEN NOT EXISTS (SELECT FROM room) THEN 'full' ELSE 'taken' END AS state
