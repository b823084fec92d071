-- Takes a verified period out of history; see the function.
-- Index: primary keys.
-- Locks: history, for milliseconds.
SELECT rota.detach_day(:period, :number)
