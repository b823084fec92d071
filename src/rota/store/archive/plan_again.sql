-- Has a period written again: rows came to it since. Its objects are replaced.
-- Index: primary key.
-- Locks: the row.
UPDATE rota.archives AS a
   SET state = 'planned', revision = a.revision + 1, kept = :kept::text::jsonb, error = NULL, changed_at = now()
 WHERE a.period = :period AND a.number = :number AND a.state IN ('written', 'verified', 'restored')
RETURNING a.period
