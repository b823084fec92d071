-- Who is first in line at each ordering key, and who has it: a live run, or one that was started, waits to be started
-- again and does not let go (also where it is promoted and not due yet). Asked under the locks of these keys.
-- Index: held_runs_in_order, live_runs_in_order, upcoming_runs_in_order.
-- Locks: none
SELECT i.namespace, i.key,
       (SELECT h.id FROM rota.held_runs AS h
         WHERE h.namespace = i.namespace AND (h.policies ->> 'order') = i.key AND h.gate NOT IN ('pause', 'recall')
           AND h.run_at <= now()
         ORDER BY h.nominal_at, h.id LIMIT 1) AS head,
       coalesce((SELECT l.id FROM rota.live_runs AS l
                  WHERE l.namespace = i.namespace AND (l.policies ->> 'order') = i.key LIMIT 1),
                (SELECT u.id FROM rota.upcoming_runs AS u
                  WHERE u.namespace = i.namespace AND (u.policies ->> 'order') = i.key
                    AND (u.attempt > 0 OR u.snoozes > 0) AND NOT (u.policies ? 'letGo') LIMIT 1),
                (SELECT h.id FROM rota.held_runs AS h
                  WHERE h.namespace = i.namespace AND (h.policies ->> 'order') = i.key
                    AND h.gate NOT IN ('pause', 'recall') AND h.run_at > now()
                    AND (h.attempt > 0 OR h.snoozes > 0) AND NOT (h.policies ? 'letGo') LIMIT 1)) AS holder
  FROM unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
