-- Where runs wait for a worker now. $1 tasks.
SELECT DISTINCT namespace, pool FROM rota.live_runs WHERE worker_id IS NULL AND ready_at <= now() AND task = ANY ($1::text[])
