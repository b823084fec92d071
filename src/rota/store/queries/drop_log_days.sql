-- Lets the chunks of old days go that are kept in object storage. $1 how many days are recent. See the function.
SELECT rota.drop_log_days($1)
