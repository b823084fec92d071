-- Has rows noted that come to a period from now on; see the function.
-- Index: none
-- Locks: the period's partitions, briefly.
SELECT rota.watch_day(:period)
