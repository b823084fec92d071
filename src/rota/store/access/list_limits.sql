-- Limits of a namespace, its own first, with what is left in their buckets; subjects after `after` (null: from the
-- beginning). A row of which every limit was lifted is listed only where there are defaults from which it differs
-- (`with_unlimited`).
-- Index: primary keys.
-- Locks: none
SELECT l.namespace, l.subject, l.requests_per_second, l.request_burst, l.jobs_per_second, l.job_burst, l.most_waiting,
       l.largest_payload_bytes, l.largest_batch, l.most_fan_out, l.changed_at, l.number,
       r.tokens AS request_tokens, extract(epoch FROM clock_timestamp() - r.counted_at)::float8 AS requests_counted_ago,
       j.tokens AS job_tokens, extract(epoch FROM clock_timestamp() - j.counted_at)::float8 AS jobs_counted_ago
  FROM rota.limits AS l
  LEFT JOIN rota.buckets AS r ON r.namespace = l.namespace AND r.subject = l.subject AND r.kind = 'requests'
  LEFT JOIN rota.buckets AS j ON j.namespace = l.namespace AND j.subject = l.subject AND j.kind = 'jobs'
 WHERE l.namespace = :namespace AND (:after::text IS NULL OR l.subject > :after)
   AND (num_nonnulls(l.requests_per_second, l.request_burst, l.jobs_per_second, l.job_burst, l.most_waiting,
                     l.largest_payload_bytes, l.largest_batch, l.most_fan_out) > 0
        OR (:with_unlimited AND l.subject <> ''))
 ORDER BY l.namespace, l.subject LIMIT :limit
