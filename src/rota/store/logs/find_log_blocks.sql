-- Blocks that can contain what all `entries` stand for (domain/log_index.py), latest runs first: with runs from `first`
-- to `last`, below the block (below_run, below_blob, below_first). Only this owner's, or all (null). Looks at the filters
-- of `look` blocks at most. Returns those found, and where the look stopped if there may be more (n >= look).
-- Index: primary key of log_blocks, or log_blocks_owned, walked backwards; the ids prune to the days asked for.
-- Locks: none
-- Plan: custom
SELECT last_run, blob, first, length, members, found, n
  FROM (SELECT b.last_run, b.blob, b.first, b.length, b.members,
               row_number() OVER (ORDER BY b.last_run DESC, b.blob DESC, b.first DESC) AS n,
               -- One byte is read for each entry, until one is missing.
               NOT EXISTS (
                   SELECT FROM unnest(:entries::bigint[]) AS e (hash)
                    CROSS JOIN LATERAL (SELECT (e.hash % (8 * octet_length(b.filter)))::integer) AS p (bit)
                    WHERE get_byte(substr(b.filter, p.bit / 8 + 1, 1), 0) >> (p.bit % 8) & 1 = 0) AS found
          FROM (SELECT * FROM rota.log_blocks
                 WHERE namespace = :namespace AND (:owner::text IS NULL OR owner = :owner)
                   AND last_run >= :first AND first_run <= :last AND last_run <= :below_run
                   AND (last_run, blob, first) < (:below_run, :below_blob, :below_first)
                 ORDER BY last_run DESC, blob DESC, first DESC
                 LIMIT :look) AS b) AS b
 WHERE found OR n >= :look
 ORDER BY last_run DESC, blob DESC, first DESC
 LIMIT :limit
