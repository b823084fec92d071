-- The payloads that runs of a detached period had, a page of runs; see the function.
-- Index: primary key of the detached table.
-- Locks: none
SELECT namespace, id, job_id, payload_id
  FROM rota.payloads_of_day(:period, :number, :after_namespace, :after_id, :limit)
