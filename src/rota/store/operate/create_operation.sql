-- Creates an operation; it is served from now on.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.operations (namespace, id, kind, owner, shard, state, job_id, workflow_id, name, timetable, job_made_at,
                             first_at, last_at, newest_first, existing, unknown, filter, concurrency, rate, stop_share, total,
                             is_made)
VALUES (:namespace, :operation, :kind, :owner, :shard, 'running', :job_id, :workflow_id, :name, :timetable, :job_made_at,
        :first_at, :last_at, :newest_first, :existing, :unknown, :filter, :concurrency, :rate, :stop_share, :total, :is_made)
RETURNING *
