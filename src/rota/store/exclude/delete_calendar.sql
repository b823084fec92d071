-- Deletes a calendar; gives it as it was.
-- Index: primary key.
-- Locks: the calendar's row; callers hold lock_calendars.
DELETE FROM rota.calendars AS c WHERE c.namespace = :namespace AND c.name = :name RETURNING c.*
