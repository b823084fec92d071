-- What gates remember. Asked under their locks. `probing`: whether the run that tries out an open breaker is under way;
-- one that no worker claims for ten seconds is not.
-- `until` is what was left of it when it was written, also by a clock that went back since.
-- Index: primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT g.namespace, g.kind, g.key, g.tokens, g.counted_at, g.full_at, g.state, g.failures, g.probe,
       least(g.until, clock_timestamp() + (g.until - g.changed_at)) AS until, g.wakes_at,
       coalesce((SELECT true FROM rota.live_runs AS l WHERE l.namespace = g.namespace AND l.id = g.probe
                                                          AND (l.claim IS NOT NULL
                                                               OR l.ready_at > now() - interval '10 seconds')
                 LIMIT 1), false) AS probing
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[]) AS i (namespace, kind, key)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.gates AS g WHERE g.namespace = i.namespace AND g.kind = i.kind AND g.key = i.key OFFSET 0
       ) AS g
