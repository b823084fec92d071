-- Records the objects of an archive, if nobody else has gone on with it meanwhile.
-- Index: primary key.
-- Locks: the row.
UPDATE rota.archives AS a
   SET state = 'written', revision = a.revision + 1, index_key = :index_key, index_hash = :index_hash,
       objects = :objects, runs = :runs, attempts = :attempts, left_out = :left_out, bytes = :bytes, error = NULL,
       changed_at = now()
 WHERE a.period = :period AND a.number = :number AND a.state = 'planned' AND a.revision = :revision
RETURNING a.period
