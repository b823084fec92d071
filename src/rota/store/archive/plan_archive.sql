-- Plans the archive of a period, unless one is under way; its number follows those that were dropped before.
-- Index: primary key.
-- Locks: none; the insert waits for another that plans the same.
INSERT INTO rota.archives (period, number, state, first_id, before_id, kept)
SELECT :period, 1 + coalesce(max(a.number), 0), 'planned', :first, :before, :kept::text::jsonb
  FROM rota.archives AS a
 WHERE a.period = :period
HAVING count(*) FILTER (WHERE a.state <> 'dropped') = 0
    ON CONFLICT DO NOTHING
RETURNING period, number
