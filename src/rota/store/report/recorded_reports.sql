-- Of reports whose claim was not current: which were recorded before (their answer was lost on the way)? What the
-- reaper wrote about a claim ('lost') is not a report of its worker: that one came too late. The runs have ids from
-- `first` to `last`.
-- Index: primary keys of finished_runs and attempts.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.namespace, i.id, i.claim
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (namespace, id, claim)
  LEFT JOIN LATERAL (
       SELECT * FROM rota.attempts AS a
        WHERE a.namespace = i.namespace AND a.run_id = i.id AND a.claim = i.claim
          AND a.run_id >= :first AND a.run_id <= :last OFFSET 0
       ) AS a ON true
  LEFT JOIN LATERAL (
       SELECT f.claim FROM rota.finished_runs AS f
        WHERE f.namespace = i.namespace AND f.id = i.id AND f.claim = i.claim
          AND f.id >= :first AND f.id <= :last OFFSET 0
       ) AS f ON true
 WHERE a.outcome IS DISTINCT FROM 'lost' AND (a.claim IS NOT NULL OR f.claim IS NOT NULL)
