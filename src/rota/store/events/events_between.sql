-- Events of a namespace in order. :namespace namespace; numbers in (:after, :until]; :owner owner, null for any; :limit limit. Index: primary key.
SELECT id, at, kind, subject, detail FROM rota.events
 WHERE namespace = :namespace AND id > :after AND id <= :until AND (:owner::text IS NULL OR owner = :owner) ORDER BY id LIMIT :limit
