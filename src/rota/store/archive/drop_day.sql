-- Drops the tables of a detached period; see the function.
-- Index: none
-- Locks: these tables, which nothing else uses.
SELECT rota.drop_day(:period, :number)
