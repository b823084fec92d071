-- Until when a run that is due at a moment must be started; null: no limit.
-- Not STRICT, which would keep it from being inlined: called for each row it took longer than the rest of its insert.
CREATE FUNCTION rota.expiry_of(options text, due_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
RETURN CASE WHEN strpos(options, '"expiresSeconds"') > 0
            THEN due_at + ((options::jsonb ->> 'expiresSeconds')::float8) * interval '1 second' END;
