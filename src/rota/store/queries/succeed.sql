-- Records runs that succeeded: live -> finished, fenced by claim number.
-- $1 namespaces; $2 run ids; $3 claim numbers; $4 started, $5 ended (seconds since the epoch); $6 results.
-- Gives back how many moved; the others were not current under their claim.
-- Index: primary key of live_runs. Locks the rows in the order given: callers sort by id.
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::float8[], $5::float8[], $6::text[])
        AS i (namespace, id, claim, started, ended, result)
), taken AS (
    DELETE FROM rota.live_runs AS l
     USING input AS i
     WHERE l.namespace = i.namespace AND l.id = i.id AND l.claim = i.claim
    RETURNING {l.run}, l.claim, l.worker_id, l.progress, l.progress_note, l.cancel_requested_at,
              i.started, i.ended, i.result
), recorded AS (
    INSERT INTO rota.finished_runs ({run}, status, started_at, finished_at, worker_id, claim, progress,
                                    progress_note, cancel_requested, result)
    SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
           options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt + 1, losses, created_at,
           'success', to_timestamp(started), to_timestamp(ended), worker_id, claim, progress, progress_note,
           cancel_requested_at IS NOT NULL, result
      FROM taken
)
SELECT count(*) FROM taken
