-- Whether the day of this run was brought back from the archive.
-- Index: none; reads a small table.
-- Locks: none
SELECT EXISTS (SELECT FROM rota.archives AS a
                WHERE a.state = 'restored' AND a.first_id <= :run_id AND a.before_id > :run_id)
