-- Lets the chunks of old days go that are kept in object storage. :recent_days how many days are recent. See the function.
SELECT rota.drop_log_days(:recent_days)
