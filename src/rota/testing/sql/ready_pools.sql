-- Where runs wait for a worker now. :tasks tasks.
SELECT DISTINCT namespace, pool FROM rota.live_runs WHERE worker_id IS NULL AND ready_at <= now()
   AND task = ANY (:tasks::text[])
