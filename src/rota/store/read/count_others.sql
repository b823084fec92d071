-- What waits in a namespace, and what waits for a decision; each counted up to `most`. Runs that wait out a backoff or
-- were snoozed were planned before now, and their ids say so; what is planned for later comes after them.
-- Index: primary keys.
-- Locks: none
SELECT earlier.retrying,
       earlier.postponed
     + (SELECT count(*) FROM (SELECT FROM rota.upcoming_runs AS u
                               WHERE u.namespace = :namespace AND u.id >= rota.id_floor(now()) ORDER BY u.id
                               LIMIT :most) AS first_ones) AS scheduled,
       (SELECT count(*) FROM (SELECT FROM rota.held_runs AS h WHERE h.namespace = :namespace ORDER BY h.id
                               LIMIT :most) AS first_ones) AS blocked,
       (SELECT count(*) FROM (SELECT FROM rota.dead_letters AS d WHERE d.namespace = :namespace ORDER BY d.run_id
                               LIMIT :most) AS first_ones) AS dead_letters,
       now() AS moment
  FROM (SELECT count(*) FILTER (WHERE first_ones.attempt > 0) AS retrying,
               count(*) FILTER (WHERE first_ones.attempt = 0) AS postponed
          FROM (SELECT u.attempt FROM rota.upcoming_runs AS u
                 WHERE u.namespace = :namespace AND u.id < rota.id_floor(now()) ORDER BY u.id
                 LIMIT :most) AS first_ones) AS earlier
