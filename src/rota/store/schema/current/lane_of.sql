-- The lane of a live run; see rota.live_runs.
CREATE FUNCTION rota.lane_of(namespace text, pool text, task text, priority smallint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN hashtextextended(namespace || '/' || pool || '/' || task, priority);
