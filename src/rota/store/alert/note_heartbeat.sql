-- Notes that the outside monitor is told now, unless it was told less than `pause` ago. That this can be written is part of
-- what it is told.
-- Index: primary key.
-- Locks: the only row.
INSERT INTO rota.outside_heartbeats AS h (at) VALUES (now())
ON CONFLICT (only_row) DO UPDATE SET at = excluded.at
 WHERE h.at <= now() - :pause::interval OR h.at > now()
RETURNING h.at
