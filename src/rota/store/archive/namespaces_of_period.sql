-- The namespaces that have runs among these ids, one after the other by the index.
-- Index: primary key of finished_runs, one day of it.
-- Locks: none
-- Plan: custom
WITH RECURSIVE spaces AS (
    (SELECT namespace FROM rota.finished_runs WHERE id >= :first AND id < :before ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT f.namespace FROM rota.finished_runs AS f
             WHERE f.namespace > s.namespace AND f.id >= :first AND f.id < :before ORDER BY f.namespace LIMIT 1)
      FROM spaces AS s
     WHERE s.namespace IS NOT NULL
)
SELECT namespace FROM spaces WHERE namespace IS NOT NULL
