-- Limits that changed after a change's number, in order. Every server asks all the time, and mostly nothing did.
-- Index: limits_changed.
-- Locks: none
SELECT namespace, subject, requests_per_second, request_burst, jobs_per_second, job_burst, most_waiting,
       largest_payload_bytes, largest_batch, most_fan_out, changed_at, number
  FROM rota.limits WHERE number > :number ORDER BY number
