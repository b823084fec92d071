-- Records where in object storage the logs of attempts are, that blocks have them, and that this is done. When two uploaders meet, the first
-- one's record stays.
-- Index: primary keys.
-- Locks: the rows of log_ends.
-- Idioms: one-element array, by_id.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[], :attempts::integer[],
                         :positions::bigint[], :blobs::text[], :firsts::bigint[],
                         :lengths::integer[])
        AS i (namespace, run_id, claim, attempt, position, blob, first, length)
), done AS (
    DELETE FROM rota.log_ends AS e USING input AS i
     WHERE rota.by_id(e.namespace) = ANY (ARRAY[i.namespace]) AND e.run_id = ANY (ARRAY[i.run_id]) AND e.claim = i.claim
)
INSERT INTO rota.kept_logs (namespace, run_id, claim, attempt, position, blob, first, length, indexed)
SELECT namespace, run_id, claim, attempt, position, blob, first, length, true FROM input WHERE length > 0
ON CONFLICT (namespace, run_id, claim) DO NOTHING
RETURNING claim
