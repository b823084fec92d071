-- Submits jobs that differ in their payloads alone in the caller's transaction, all of them by one statement: what
-- submit_v1 does, for jobs that run once and have neither policies nor keys (gateway/transaction.py). Versioned like
-- submit_v1, and with the same rights.
--
-- Takes what they have alike as a JSON object (namespace, owner, name, task, pool, priority, tags, options, inlineBytes,
-- the id of the first one, and runAt or delaySeconds for a later time), and their payloads as a JSON array of texts, each
-- of them JSON (null: none).
-- The ids of the others follow, each greater by one. Returns the status that all of them have.
-- Wake-ups are sent when the caller commits.
CREATE FUNCTION rota.submit_set_v1(alike text, payloads text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    moment  timestamptz := clock_timestamp();
    shape   jsonb := alike::jsonb;
    ns      text := shape ->> 'namespace';
    in_pool text := shape ->> 'pool';
    level   smallint := (shape ->> 'priority')::smallint;
    tag_set text[] := ARRAY(SELECT jsonb_array_elements_text(shape -> 'tags'));
    high    text := left(shape ->> 'id', 16);
    low     bigint := ('x' || right(shape ->> 'id', 16))::bit(64)::bigint;
    spread  bigint := low & 4611686018427387903;
    shards  bigint := (SELECT c.shards FROM rota.constants AS c);
    due_at  timestamptz := coalesce((shape ->> 'runAt')::timestamptz,
                                    moment + coalesce((shape ->> 'delaySeconds')::float8, 0) * interval '1 second');
    later   boolean := due_at > moment + interval '1 second';
    holder  text := shape ->> 'owner';
    title   text := shape ->> 'name';
    called  text := shape ->> 'task';
    choices text := shape ->> 'options';
    expiry  timestamptz := rota.expiry_of(choices, due_at);
    in_lane bigint := rota.lane_of(ns, in_pool, called, level);
    inline  integer := (shape ->> 'inlineBytes')::integer;
    bound   text[] := (SELECT b.namespaces FROM rota.bound_to() AS b);
BEGIN
    IF (ns = ANY (bound)) IS FALSE OR ns IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE = format(
            'the database role %s may submit in these namespaces alone: %s (not in %s)',
            session_user, array_to_string(bound, ', '), coalesce(ns, 'none'));
    END IF;
    IF length(shape ->> 'id') <> 32 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the id of the first job must have 32 hex digits';
    END IF;
    WITH given AS MATERIALIZED (
        SELECT (high || lpad(to_hex(low + p.place - 1), 16, '0'))::uuid AS id,
               ((spread + p.place - 1) % shards)::smallint AS shard,
               p.payload, coalesce(octet_length(p.payload) > inline, false) AS large
          FROM json_array_elements_text(payloads::json) WITH ORDINALITY AS p (payload, place)
    ), large AS (
        INSERT INTO rota.payloads (namespace, id, body) SELECT ns, g.id, g.payload FROM given AS g WHERE g.large
    ), ready AS (
        INSERT INTO rota.live_runs (
            namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id, options,
            cause, shard, nominal_at, run_at, created_at, expires_at, lane, ready_at)
        SELECT ns, g.id, g.id, 1, holder, title, called, in_pool, level, tag_set,
               CASE WHEN NOT g.large THEN g.payload END, CASE WHEN g.large THEN g.id END, choices, 'submit', g.shard,
               due_at, due_at, moment, expiry, in_lane, greatest(due_at, moment)
          FROM given AS g WHERE NOT later
    )
    INSERT INTO rota.upcoming_runs (
        namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id, options, cause,
        shard, nominal_at, run_at, created_at, expires_at)
    SELECT ns, g.id, g.id, 1, holder, title, called, in_pool, level, tag_set, CASE WHEN NOT g.large THEN g.payload END,
           CASE WHEN g.large THEN g.id END, choices, 'submit', g.shard, due_at, due_at, moment, expiry
      FROM given AS g WHERE later;
    IF later THEN
        IF due_at <= moment + interval '10 seconds' THEN
            PERFORM pg_notify('rota_schedule', 'soon');  -- a scheduler may sleep for longer
        END IF;
        RETURN 'scheduled';
    END IF;
    PERFORM pg_notify('rota_ready', in_pool);
    RETURN 'queued';
END
$$;
