-- The versions of a workflow, newest first, as many as have :bytes of definitions together.
-- Index: primary key.
-- Locks: none
SELECT * FROM (
    SELECT v.*, sum(octet_length(v.definition)) OVER (ORDER BY v.number DESC) - octet_length(v.definition) AS bytes_before
      FROM rota.workflow_versions AS v
     WHERE v.namespace = :namespace AND v.workflow_id = :workflow_id AND v.number > 0
     ORDER BY v.number DESC LIMIT :limit) AS v
 WHERE v.bytes_before < :bytes
 ORDER BY v.number DESC
