-- Moves an archive from one state to another, if nobody else has gone on with it meanwhile.
-- Index: primary key.
-- Locks: the row.
UPDATE rota.archives AS a
   SET state = :after, revision = a.revision + 1, error = NULL, changed_at = now()
 WHERE a.period = :period AND a.number = :number AND a.state = :before AND a.revision = :revision
RETURNING a.period
