-- Pauses or resumes a pool; gives a row if that changed it, and records the event.
-- Index: primary key.
-- Locks: the pool's row.
WITH changed AS (
    INSERT INTO rota.pools AS p (namespace, pool, paused_at)
    VALUES (:namespace, :pool, CASE WHEN :paused::boolean THEN now() END)
    ON CONFLICT (namespace, pool) DO UPDATE SET paused_at = excluded.paused_at
     WHERE (p.paused_at IS NULL) <> (excluded.paused_at IS NULL)
    RETURNING p.namespace, p.pool
)
INSERT INTO rota.events (namespace, kind, subject)
SELECT namespace, CASE WHEN :paused::boolean THEN 'pool.paused' ELSE 'pool.resumed' END, pool FROM changed
RETURNING id
