-- Takes tokens out of a bucket, whole ones: up to :wanted of them, but none if there are not at least :least. :namespace namespace; :subject subject;
-- :kind kind; :per_second tokens a second; :burst how many it holds. Gives what was granted, and what is left. Index: primary key.
-- The row is locked before the clock is read, so nobody counts the same time twice. A clock that went back adds nothing, and is
-- counted on from where it is: else nothing came until it has caught up.
INSERT INTO rota.buckets AS b (namespace, subject, kind, tokens, granted, counted_at, full_at)
SELECT :namespace, :subject, :kind, :burst::float8 - t.granted, t.granted, t.moment,
       t.moment + make_interval(secs => t.granted / :per_second::float8)
  FROM (SELECT clock_timestamp() AS moment,
               CASE WHEN :least::bigint <= :burst::float8 THEN least(:wanted::bigint, floor(:burst::float8)::bigint) ELSE 0 END AS granted) AS t
ON CONFLICT (namespace, subject, kind) DO UPDATE
   SET (tokens, granted, counted_at, full_at) = (
       SELECT f.tokens - t.granted, t.granted, f.moment,
              f.moment + make_interval(secs => (:burst::float8 - f.tokens + t.granted) / :per_second::float8)
         FROM (SELECT n.moment,
                      least(:burst::float8, b.tokens + :per_second::float8 * greatest(0, extract(epoch FROM n.moment - b.counted_at)::float8)) AS tokens
                 FROM (SELECT clock_timestamp() AS moment OFFSET 0) AS n OFFSET 0) AS f,
              LATERAL (SELECT CASE WHEN :least::bigint <= f.tokens THEN least(:wanted::bigint, floor(f.tokens)::bigint) ELSE 0 END AS granted) AS t)
RETURNING b.granted, b.tokens
