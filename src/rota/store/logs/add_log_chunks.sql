-- Adds to the logs of runs; a chunk that is there already is left alone. The last chunk of an attempt makes its log due
-- for upload.
-- Index: primary keys.
-- Locks: none
WITH added AS (
    INSERT INTO rota.log_chunks (namespace, run_id, claim, number, position, attempt, last, body)
    SELECT namespace, run_id, claim, number, nextval('rota.log_positions'), attempt, last, body
      FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[], :numbers::integer[],
                  :attempts::integer[], :last::boolean[], :bodies::text[])
           AS i (namespace, run_id, claim, number, attempt, last, body)
    ON CONFLICT (namespace, run_id, claim, number) DO NOTHING
    RETURNING namespace, run_id, claim, last
)
INSERT INTO rota.log_ends (namespace, run_id, claim)
SELECT namespace, run_id, claim FROM added WHERE last
ON CONFLICT (namespace, run_id, claim) DO NOTHING
