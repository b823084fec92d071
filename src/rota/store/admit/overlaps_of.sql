-- The runs of jobs that have not ended: live, started and waiting to be started again, or not started and at a gate
-- (named); also one that was recalled and is not decided on yet. Asked under the locks of these jobs. Runs of backfills and
-- replays are not among them: a schedule goes on beside them.
-- Index: live_runs_of_job, workflow_runs_of_job, upcoming_runs_of_job, held_runs_of_job.
-- Locks: none
SELECT i.namespace, i.job_id, r.id, r.nominal_at, r.gate
  FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
 CROSS JOIN LATERAL (
       SELECT l.id, l.nominal_at, NULL AS gate FROM rota.live_runs AS l
        WHERE l.namespace = i.namespace AND l.job_id = i.job_id AND l.job_id <> l.id
          AND l.cause NOT IN ('backfill', 'replay')
       UNION ALL
       SELECT w.carrier_id, w.nominal_at, NULL FROM rota.workflow_runs AS w
        WHERE w.namespace = i.namespace AND w.job_id = i.job_id AND w.ended_at IS NULL
          AND w.cause NOT IN ('backfill', 'replay')
       UNION ALL
       SELECT u.id, u.nominal_at, NULL FROM rota.upcoming_runs AS u
        WHERE u.namespace = i.namespace AND u.job_id = i.job_id AND u.job_id <> u.id
          AND (u.attempt > 0 OR u.snoozes > 0) AND u.cause NOT IN ('backfill', 'replay')
       UNION ALL
       SELECT h.id, h.nominal_at, CASE WHEN h.attempt = 0 AND h.snoozes = 0 THEN h.gate END FROM rota.held_runs AS h
        WHERE h.namespace = i.namespace AND h.job_id = i.job_id AND h.job_id <> h.id
          AND h.gate <> 'pause' AND h.cause NOT IN ('backfill', 'replay')
          AND (h.gate NOT IN ('new', 'dependent') OR h.attempt > 0 OR h.snoozes > 0)
       ) AS r
