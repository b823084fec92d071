-- Changes the limits of a namespace (the subject is '') or of one tenant in it. `changes` is JSON with the names of
-- columns, where null lifts a limit; if there was no row, `defaults` fill the rest.
-- Index: primary key.
-- Locks: the row that counts changes, so that changes become visible in the order of their numbers; the row of limits.
WITH turn AS (
    UPDATE rota.limit_changes SET number = number + 1 RETURNING number
)
INSERT INTO rota.limits AS l (namespace, subject, requests_per_second, request_burst, jobs_per_second, job_burst,
                              most_waiting,
                              largest_payload_bytes, largest_batch, most_fan_out, changed_at, number)
SELECT :namespace, :subject, n.requests_per_second, n.request_burst, n.jobs_per_second, n.job_burst, n.most_waiting,
       n.largest_payload_bytes, n.largest_batch, n.most_fan_out, clock_timestamp(), turn.number
  FROM turn, jsonb_populate_record(NULL::rota.limits, :defaults::jsonb || :changes::jsonb) AS n
ON CONFLICT (namespace, subject) DO UPDATE
   SET (requests_per_second, request_burst, jobs_per_second, job_burst, most_waiting, largest_payload_bytes,
        largest_batch,
        most_fan_out, changed_at, number) = (
       SELECT n.requests_per_second, n.request_burst, n.jobs_per_second, n.job_burst, n.most_waiting,
              n.largest_payload_bytes,
              n.largest_batch, n.most_fan_out, excluded.changed_at, excluded.number
         FROM jsonb_populate_record(l, :changes::jsonb) AS n)
RETURNING l.namespace, l.subject, l.requests_per_second, l.request_burst, l.jobs_per_second, l.job_burst,
          l.most_waiting,
          l.largest_payload_bytes, l.largest_batch, l.most_fan_out, l.changed_at, l.number
