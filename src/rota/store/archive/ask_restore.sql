-- Asks for a period to be restored, all its archives together. Restored already: it stays longer.
-- Index: primary key.
-- Locks: the rows.
UPDATE rota.archives AS a
   SET state = CASE WHEN a.state = 'restored' THEN a.state ELSE 'restoring' END, revision = a.revision + 1,
       restored_until = now() + make_interval(days => :days::integer), changed_at = now()
 WHERE a.period = :period AND a.state IN ('dropped', 'restoring', 'restored')
   AND NOT EXISTS (SELECT FROM rota.archives AS o
                    WHERE o.period = :period AND o.state NOT IN ('dropped', 'restoring', 'restored'))
RETURNING a.period, a.state
