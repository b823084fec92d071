-- Adds to the logs of runs; a chunk that is there already is left alone. One array per column: $1 namespaces; $2 run ids;
-- $3 claim numbers; $4 numbers; $5 attempts; $6 last; $7 bodies. The last chunk of an attempt makes its log due for keeping.
-- Index: primary keys.
WITH added AS (
    INSERT INTO rota.log_chunks (namespace, run_id, claim, number, position, attempt, last, body)
    SELECT namespace, run_id, claim, number, nextval('rota.log_positions'), attempt, last, body
      FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::integer[], $5::integer[], $6::boolean[], $7::text[])
           AS i (namespace, run_id, claim, number, attempt, last, body)
    ON CONFLICT (namespace, run_id, claim, number) DO NOTHING
    RETURNING namespace, run_id, claim, last
)
INSERT INTO rota.log_ends (namespace, run_id, claim)
SELECT namespace, run_id, claim FROM added WHERE last
ON CONFLICT (namespace, run_id, claim) DO NOTHING
