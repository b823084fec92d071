-- Notes where the logs of attempts are kept, and that this is done. $1 namespaces; $2 run ids; $3 claims; $4 attempts;
-- $5 positions; $6 blobs; $7 first bytes; $8 lengths. Two keepers that meet: the first stands. Index: primary keys.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[],
                         $8::integer[])
        AS i (namespace, run_id, claim, attempt, position, blob, first, length)
), done AS (
    DELETE FROM rota.log_ends AS e USING input AS i
     WHERE e.namespace = ANY (ARRAY[i.namespace]) AND e.run_id = ANY (ARRAY[i.run_id]) AND e.claim = i.claim
)
INSERT INTO rota.kept_logs (namespace, run_id, claim, attempt, position, blob, first, length)
SELECT namespace, run_id, claim, attempt, position, blob, first, length FROM input WHERE length > 0
ON CONFLICT (namespace, run_id, claim) DO NOTHING
