-- Takes tokens out of a bucket, whole ones: up to $6 of them, but none if there are not at least $7. $1 namespace; $2 subject;
-- $3 kind; $4 tokens a second; $5 how many it holds. Gives what was granted, and what is left. Index: primary key.
-- The row is locked before the clock is read, so nobody counts the same time twice. A clock that went back adds nothing, and is
-- counted on from where it is: else nothing came until it has caught up.
INSERT INTO rota.buckets AS b (namespace, subject, kind, tokens, granted, counted_at, full_at)
SELECT $1, $2, $3, $5::float8 - t.granted, t.granted, t.moment,
       t.moment + make_interval(secs => t.granted / $4::float8)
  FROM (SELECT clock_timestamp() AS moment,
               CASE WHEN $7::bigint <= $5::float8 THEN least($6::bigint, floor($5::float8)::bigint) ELSE 0 END AS granted) AS t
ON CONFLICT (namespace, subject, kind) DO UPDATE
   SET (tokens, granted, counted_at, full_at) = (
       SELECT f.tokens - t.granted, t.granted, f.moment,
              f.moment + make_interval(secs => ($5::float8 - f.tokens + t.granted) / $4::float8)
         FROM (SELECT n.moment,
                      least($5::float8, b.tokens + $4::float8 * greatest(0, extract(epoch FROM n.moment - b.counted_at)::float8)) AS tokens
                 FROM (SELECT clock_timestamp() AS moment OFFSET 0) AS n OFFSET 0) AS f,
              LATERAL (SELECT CASE WHEN $7::bigint <= f.tokens THEN least($6::bigint, floor(f.tokens)::bigint) ELSE 0 END AS granted) AS t)
RETURNING b.granted, b.tokens
