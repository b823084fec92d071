-- A scheduler's heartbeat; makes its row if it is not there.
-- Index: primary key.
-- Locks: the scheduler's row.
INSERT INTO rota.schedulers (id, host, pid) VALUES (:scheduler_id, :host, :pid)
ON CONFLICT (id) DO UPDATE SET beat = schedulers.beat + 1, beat_at = clock_timestamp()
RETURNING clock_timestamp() AS database_time
