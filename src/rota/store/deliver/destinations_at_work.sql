-- All destinations that are enabled: how far each has come, how many of its deliveries wait, and in how many seconds the
-- first of them may be sent (null: none waits; a sender that has it is waited for).
-- Index: deliveries_pending; destinations are few.
-- Locks: none
SELECT d.id, d.namespace, d.name, d.kinds, d.least_severity, d.position, p.pending,
       extract(epoch FROM greatest(p.next_at, d.next_at, d.leased_until) - clock_timestamp())::float8 AS due_in
  FROM rota.destinations AS d
 CROSS JOIN LATERAL (SELECT count(*) AS pending, min(i.next_at) AS next_at FROM rota.deliveries AS i
                      WHERE i.destination_id = d.id AND i.ended_at IS NULL) AS p
 WHERE d.enabled
