-- Makes restored rows a part of history again; see the function.
-- Index: none
-- Locks: history, briefly.
SELECT rota.attach_day(:period, :until)
