-- Fires schedules: moves each job's mark and next fire time, and makes the runs, in one statement.
-- $1 scheduler id. Jobs: $2 namespaces, $3 ids, $4 versions, $5 marks they were computed from, $6 new marks,
-- $7 new next fire times (null: no more, the job is completed). Runs: $8 job ids, $9 run ids, $10 nominal times.
-- A job that was changed, paused or fired by another since it was read keeps what it has, and its runs are not
-- made: that comparison, with the mark, is what makes a fire time exactly one run. A run that is there already, wherever
-- it is (its id is a function of job and time), is not made again even if a mark were wrong. The lease epoch is checked
-- through the shard: $11 shards with $12 epochs. Index: primary key of jobs.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest($11::smallint[], $12::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = $1
), input AS (
    SELECT * FROM unnest($2::text[], $3::uuid[], $4::integer[], $5::timestamptz[], $6::timestamptz[],
                         $7::timestamptz[])
        AS i (namespace, id, version, fired_through, new_mark, new_next)
), fired AS (
    UPDATE rota.jobs AS j
       SET fired_through = i.new_mark, next_fire_at = i.new_next,
           state = CASE WHEN i.new_next IS NULL THEN 'completed' ELSE j.state END
      FROM input AS i
     WHERE j.namespace = i.namespace AND j.id = i.id AND j.version = i.version
       AND j.fired_through = i.fired_through AND j.state = 'scheduled'
       AND j.shard IN (SELECT shard FROM leased)
    RETURNING j.*
)
INSERT INTO rota.upcoming_runs ({run})
SELECT j.namespace, r.id, j.id, j.version, j.owner, j.name, j.task, j.pool, j.priority, j.tags, j.payload,
       j.payload_id, j.options, 'schedule', NULL, NULL, j.shard, r.nominal_at, r.nominal_at, 0, 0, now()
  FROM unnest($8::uuid[], $9::uuid[], $10::timestamptz[]) AS r (job_id, id, nominal_at)
  JOIN fired AS j ON j.id = r.job_id
 WHERE NOT EXISTS (SELECT FROM rota.runs AS e WHERE e.namespace = j.namespace AND e.id = r.id)
ON CONFLICT (namespace, id) DO NOTHING
RETURNING id, run_at
