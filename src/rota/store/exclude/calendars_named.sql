-- The calendars of a namespace with these names.
-- Index: primary key.
-- Locks: none
SELECT c.name, c.revision, c.days, c.changed_by, c.created_at, c.changed_at
  FROM rota.calendars AS c
 WHERE c.namespace = :namespace AND c.name = ANY (:names::text[])
