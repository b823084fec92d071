-- Limits that changed behind change :number, in order: every server asks again and again, and mostly nothing did.
-- Index: limits_changed.
SELECT namespace, subject, requests_per_second, request_burst, jobs_per_second, job_burst, most_waiting,
       largest_payload_bytes, largest_batch, most_fan_out, changed_at, number
  FROM rota.limits WHERE number > :number ORDER BY number
