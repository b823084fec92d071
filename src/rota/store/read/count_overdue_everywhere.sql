-- Counts schedules of every namespace whose next fire time has passed: a working scheduler fires ahead of it. Reads at
-- most `most` rows of each shard.
-- Index: jobs_due, one range per shard.
-- Locks: none
SELECT late.namespace, count(*) AS overdue
  FROM rota.shard_leases AS s
 CROSS JOIN LATERAL (SELECT j.namespace FROM rota.jobs AS j
                      WHERE j.shard = s.shard AND j.state = 'scheduled' AND j.next_fire_at < now() - :late_after::interval
                      ORDER BY j.next_fire_at LIMIT :most) AS late
 GROUP BY late.namespace
