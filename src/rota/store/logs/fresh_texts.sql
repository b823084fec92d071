-- The chunks' text of these attempts, with run ids from `first` to `last`: those that can contain a text. The caller
-- verifies: PostgreSQL folds the case of ASCII alone, so all other text passes.
-- Index: primary key of log_chunks, one attempt after the other; the ids prune.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.run_id, i.claim, c.attempt, c.body
  FROM unnest(:run_ids::uuid[], :claims::bigint[]) AS i (run_id, claim)
 CROSS JOIN LATERAL (
       SELECT min(c.attempt) AS attempt, string_agg(c.body, '' ORDER BY c.number) AS body,
              bool_or(octet_length(c.body) <> char_length(c.body)
                      OR strpos(lower(c.body COLLATE "C"), :text) > 0) AS found
         FROM rota.log_chunks AS c
        WHERE c.namespace = :namespace AND c.run_id = i.run_id AND c.claim = i.claim
          AND c.run_id >= :first AND c.run_id <= :last OFFSET 0) AS c
 WHERE c.found
