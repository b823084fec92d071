-- Records why an archive does not go on.
-- Index: primary key.
-- Locks: the row.
UPDATE rota.archives AS a SET error = :error
 WHERE a.period = :period AND a.number = :number AND a.error IS DISTINCT FROM :error
