-- What still needs runs with these ids; see the function.
-- Index: primary keys.
-- Locks: none
SELECT rota.holds_day(:first, :before)
