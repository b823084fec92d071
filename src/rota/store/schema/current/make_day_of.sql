-- Makes the partitions of history that a run belongs to, where they are missing.
CREATE FUNCTION rota.make_day_of(run uuid) RETURNS boolean
LANGUAGE sql
RETURN rota.make_day((to_timestamp(('x' || left(replace(run::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                      AT TIME ZONE 'UTC')::date);
