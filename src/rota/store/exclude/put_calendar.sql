-- Creates a calendar or gives it other days; `made` says which.
-- Index: primary key.
-- Locks: the calendar's row; callers hold lock_calendars.
INSERT INTO rota.calendars AS c (namespace, name, revision, days, number_of_days, changed_by)
VALUES (:namespace, :name, :revision, :days, :number_of_days, :changed_by)
ON CONFLICT (namespace, name) DO UPDATE
   SET revision = excluded.revision, days = excluded.days, number_of_days = excluded.number_of_days,
       changed_by = excluded.changed_by, changed_at = now()
RETURNING c.xmax = 0 AS made
