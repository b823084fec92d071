-- The same after a change of options: a run that was started once has lost its expiry for good.
CREATE FUNCTION rota.changed_expiry(
    expires_at timestamptz, old_options text, attempt integer, snoozes integer, new_options text, due_at timestamptz
) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN attempt = 0 AND snoozes = 0
                 AND (expires_at IS NOT NULL OR strpos(old_options, '"expiresSeconds"') = 0)
            THEN rota.expiry_of(new_options, due_at) END;
