-- Claims a destination for a sender, if its scheduler owns the shard at this epoch and no other sender has it.
-- Index: primary keys.
-- Locks: the destination FOR UPDATE SKIP LOCKED.
WITH free AS (
    SELECT d.id FROM rota.destinations AS d
     WHERE d.id = :destination_id AND d.enabled AND d.next_at <= clock_timestamp()
       AND (d.leased_until IS NULL OR d.leased_until <= clock_timestamp())
       AND EXISTS (SELECT FROM rota.shard_leases AS l
                    WHERE l.shard = :shard AND l.owner = :scheduler_id AND l.epoch = :epoch)
       FOR UPDATE OF d SKIP LOCKED
)
UPDATE rota.destinations AS d
   SET lease = d.lease + 1, leased_until = clock_timestamp() + :lease_time::interval
  FROM free WHERE d.id = free.id
RETURNING d.id, d.namespace, d.name, d.kind, d.sealed, d.failures, d.lease
