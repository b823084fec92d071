-- Figures of a namespace, pool or task from `since` on, oldest first: a row for each minute or hour that was written, with
-- nulls where nothing went on. What lies ahead was written before a clock was set back.
-- Index: the primary key.
-- Locks: none
SELECT w.at, w.looks AS looked, f.started, f.succeeded, f.failed, f.retried, f.run_seconds, f.lags, f.durations, f.looks,
       f.queued, f.most_queued, f.running, f.slots, f.busy, f.dead_letters, f.blocked
  FROM rota.figures AS w
  LEFT JOIN rota.figures AS f
         ON f.namespace = :namespace AND f.kind = :kind AND f.name = :name AND f.step = :step AND f.at = w.at
        AND f.at >= :since
 WHERE w.namespace = '' AND w.kind = 'namespace' AND w.name = '' AND w.step = :step AND w.at >= :since AND w.at <= now()
 ORDER BY w.at
