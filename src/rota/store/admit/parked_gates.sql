-- Gates at which runs wait, each with its first run, in index order after the named gate; at most `limit`. Jumps from
-- gate to gate, so that the number of runs at each costs nothing. `due`: false if the clock went back and made the run
-- early again.
-- Index: held_runs_waiting.
-- Locks: none
-- Idioms: OFFSET 0.
WITH RECURSIVE parked AS (
    (SELECT h.namespace, h.gate, h.gate_key, h.id, 1 AS n FROM rota.held_runs AS h
      WHERE h.gate_key IS NOT NULL
        AND (h.namespace, h.gate, h.gate_key) > (:namespace::text, :gate::text, :gate_key::text)
      ORDER BY h.namespace, h.gate, h.gate_key, h.nominal_at, h.id
      LIMIT 1)
    UNION ALL
    SELECT r.namespace, r.gate, r.gate_key, r.id, p.n + 1
      FROM parked AS p
     CROSS JOIN LATERAL (
           SELECT h.namespace, h.gate, h.gate_key, h.id FROM rota.held_runs AS h
            WHERE h.gate_key IS NOT NULL AND (h.namespace, h.gate, h.gate_key) > (p.namespace, p.gate, p.gate_key)
            ORDER BY h.namespace, h.gate, h.gate_key, h.nominal_at, h.id
            LIMIT 1
           ) AS r
     WHERE p.n < :limit
)
SELECT p.namespace, p.gate AS kind, p.gate_key AS key, h.id, h.job_id, h.cause, h.attempt, h.snoozes, h.nominal_at,
       h.policies, h.run_at <= clock_timestamp() AS due
  FROM parked AS p
 CROSS JOIN LATERAL (
       SELECT * FROM rota.held_runs AS h WHERE h.namespace = p.namespace AND h.id = p.id OFFSET 0
       ) AS h
