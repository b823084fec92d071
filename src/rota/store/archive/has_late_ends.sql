-- Whether rows came to a period since it is watched.
-- Index: late_ends_of.
-- Locks: none
SELECT EXISTS (SELECT FROM rota.late_ends AS l WHERE l.period = :period)
