-- Takes whole tokens out of a bucket: up to `wanted` of them, but none if there are not at least `least`. Gives what
-- was granted, and what is left. The row is locked before the clock is read, so no time is counted twice. A clock that
-- went back adds nothing, and is counted on from where it is: else nothing would come until it has caught up.
-- Index: primary key.
-- Locks: the bucket's row.
-- Idioms: OFFSET 0.
INSERT INTO rota.buckets AS b (namespace, subject, kind, tokens, granted, counted_at, full_at)
SELECT :namespace, :subject, :kind, :burst::float8 - t.granted, t.granted, t.moment,
       t.moment + make_interval(secs => t.granted / :per_second::float8)
  FROM (SELECT clock_timestamp() AS moment,
               CASE WHEN :least::bigint <= :burst::float8 THEN least(:wanted::bigint, floor(:burst::float8)::bigint)
                    ELSE 0 END AS granted) AS t
ON CONFLICT (namespace, subject, kind) DO UPDATE
   SET (tokens, granted, counted_at, full_at) = (
       SELECT f.tokens - t.granted, t.granted, f.moment,
              f.moment + make_interval(secs => (:burst::float8 - f.tokens + t.granted) / :per_second::float8)
         FROM (SELECT n.moment,
                      least(:burst::float8,
                            b.tokens + :per_second::float8
                                       * greatest(0, extract(epoch FROM n.moment - b.counted_at)::float8)) AS tokens
                 FROM (SELECT clock_timestamp() AS moment OFFSET 0) AS n OFFSET 0) AS f,
              LATERAL (SELECT CASE WHEN :least::bigint <= f.tokens
                              THEN least(:wanted::bigint, floor(f.tokens)::bigint) ELSE 0 END AS granted) AS t)
RETURNING b.granted, b.tokens
