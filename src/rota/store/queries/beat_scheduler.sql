-- A scheduler's heartbeat; makes its row if it is not there. $1 id; $2 host; $3 pid.
INSERT INTO rota.schedulers (id, host, pid) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET beat = schedulers.beat + 1, beat_at = clock_timestamp()
RETURNING clock_timestamp() AS database_time
