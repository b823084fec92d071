-- Drops the chunks of old days that are in object storage; see the function.
-- Index: none
-- Locks: the day's partition, briefly.
SELECT rota.drop_log_days(:recent_days)
