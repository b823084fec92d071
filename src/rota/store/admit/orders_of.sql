-- For each ordering key: the first run in line and where it waits, and the run that has the key. That is a live run, or
-- one that was started, waits for a retry and keeps the key (also if it is promoted and not due yet). A recalled run
-- keeps its place until it is decided on; one that waits for other jobs has none. The caller holds the locks of these keys. Due times are compared with the
-- clock after locking, not with the start of the transaction: a run that another scheduler held in between must count
-- as due.
-- Index: held_runs_in_order, live_runs_in_order, upcoming_runs_in_order.
-- Locks: none
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS present)
SELECT i.namespace, i.key, head.id AS head, head.gate AS head_gate, head.nominal_at AS head_nominal_at,
       coalesce((SELECT l.id FROM rota.live_runs AS l
                  WHERE l.namespace = i.namespace AND (l.policies ->> 'order') = i.key LIMIT 1),
                (SELECT u.id FROM rota.upcoming_runs AS u
                  WHERE u.namespace = i.namespace AND (u.policies ->> 'order') = i.key
                    AND (u.attempt > 0 OR u.snoozes > 0) AND NOT (u.policies ? 'letGo') LIMIT 1),
                (SELECT h.id FROM rota.held_runs AS h
                  WHERE h.namespace = i.namespace AND (h.policies ->> 'order') = i.key
                    AND h.gate <> 'pause' AND h.run_at > moment.present
                    AND (h.attempt > 0 OR h.snoozes > 0) AND NOT (h.policies ? 'letGo') LIMIT 1)) AS holder
  FROM moment
 CROSS JOIN unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
  LEFT JOIN LATERAL (
       SELECT h.id, h.gate, h.nominal_at FROM rota.held_runs AS h
        WHERE h.namespace = i.namespace AND (h.policies ->> 'order') = i.key
          AND h.gate NOT IN ('pause', 'dependent', 'dependency') AND h.run_at <= moment.present
        ORDER BY h.nominal_at, h.id LIMIT 1
       ) AS head ON true
