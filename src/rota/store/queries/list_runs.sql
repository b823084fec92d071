-- Runs, latest planned first. $1 namespace; ids in [$2, $3) (time range and cursor); filters, null for any: $4 owner,
-- $5 statuses, $6 name, $7 tag, $8 task; $9 limit; $10 only one-shot jobs (runs that are their own job).
-- Index: primary keys in the order of ids. Place by place, so that one whose statuses are not asked for is not read at
-- all: `status = failed` must not walk over millions of upcoming runs.
SELECT * FROM (
    (SELECT * FROM rota.runs
      WHERE place = 'upcoming' AND ($5::text[] IS NULL OR $5 && ARRAY['scheduled', 'retrying'])
        AND namespace = $1 AND id >= $2 AND id < $3 AND (NOT $10::boolean OR job_id = id)
        AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
        AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags))
        AND ($8::text IS NULL OR task = $8)
      ORDER BY id DESC LIMIT $9)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'held' AND ($5::text[] IS NULL OR $5 && ARRAY['blocked', 'scheduled', 'retrying'])
        AND namespace = $1 AND id >= $2 AND id < $3 AND (NOT $10::boolean OR job_id = id)
        AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
        AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags))
        AND ($8::text IS NULL OR task = $8)
      ORDER BY id DESC LIMIT $9)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'live' AND ($5::text[] IS NULL OR $5 && ARRAY['queued', 'running'])
        AND namespace = $1 AND id >= $2 AND id < $3 AND (NOT $10::boolean OR job_id = id)
        AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
        AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags))
        AND ($8::text IS NULL OR task = $8)
      ORDER BY id DESC LIMIT $9)
    UNION ALL
    (SELECT * FROM rota.runs
      WHERE place = 'finished' AND ($5::text[] IS NULL OR $5 && ARRAY['success', 'failed', 'cancelled', 'skipped'])
        AND namespace = $1 AND id >= $2 AND id < $3 AND (NOT $10::boolean OR job_id = id)
        AND ($4::text IS NULL OR owner = $4) AND ($5::text[] IS NULL OR status = ANY ($5))
        AND ($6::text IS NULL OR name = $6) AND ($7::text IS NULL OR $7 = ANY (tags))
        AND ($8::text IS NULL OR task = $8)
      ORDER BY id DESC LIMIT $9)
) AS r
 ORDER BY id DESC
 LIMIT $9
