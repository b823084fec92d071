-- Calendars of a namespace after a name (null: from the beginning), with how many days they have.
-- Index: primary key.
-- Locks: none
SELECT c.name, c.number_of_days, c.changed_by, c.created_at, c.changed_at
  FROM rota.calendars AS c
 WHERE c.namespace = :namespace AND (:after::text IS NULL OR c.name > :after)
 ORDER BY c.namespace, c.name LIMIT :limit
