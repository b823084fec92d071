-- Events of a namespace before a number, latest first; of this owner, or of any (null). With `sees_all` also those of the
-- installation, instead of their copies in the namespace. `kinds`: of these, or beginning with one of `beginnings`; none:
-- of all. `subject`, `since_time` (included) and `until_time` (not included) null: any.
-- Index: events_of_namespace.
-- Locks: none
SELECT * FROM (
    (SELECT id, namespace, at, kind, subject, detail, data FROM rota.events
      WHERE namespace = :namespace AND id < :before AND NOT (is_copy AND :sees_all::boolean)
        AND (:owner::text IS NULL OR owner = :owner)
        AND (cardinality(:kinds::text[]) = 0 OR kind = ANY (:kinds) OR kind ^@ ANY (:beginnings::text[]))
        AND (:subject::text IS NULL OR subject = :subject)
        AND (:since_time::timestamptz IS NULL OR at >= :since_time)
        AND (:until_time::timestamptz IS NULL OR at < :until_time)
      ORDER BY id DESC LIMIT :limit)
    UNION ALL
    (SELECT id, namespace, at, kind, subject, detail, data FROM rota.events
      WHERE :sees_all AND namespace = '*' AND id < :before
        AND (cardinality(:kinds) = 0 OR kind = ANY (:kinds) OR kind ^@ ANY (:beginnings))
        AND (:subject IS NULL OR subject = :subject)
        AND (:since_time IS NULL OR at >= :since_time)
        AND (:until_time IS NULL OR at < :until_time)
      ORDER BY id DESC LIMIT :limit)
    ) AS e
 ORDER BY id DESC LIMIT :limit
