-- Tells that a scheduler took shards from one that fell silent, once for all of the shards, and marks the silent one as
-- lost. Its row may be locked by a beat that hangs: nobody waits for that, and a later takeover marks it.
CREATE FUNCTION rota.tell_takeover() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    silent uuid[] := ARRAY(SELECT DISTINCT b.owner FROM before AS b JOIN later AS l ON l.shard = b.shard
                            WHERE b.owner IS NOT NULL AND l.owner IS NOT NULL AND l.owner <> b.owner);
BEGIN
    IF cardinality(silent) = 0 THEN
        RETURN NULL;
    END IF;
    UPDATE rota.schedulers AS s SET lost_at = clock_timestamp()
     WHERE s.id = ANY (ARRAY(SELECT i.id FROM rota.schedulers AS i WHERE i.id = ANY (silent) AND i.lost_at IS NULL
                              ORDER BY i.id FOR UPDATE SKIP LOCKED));
    INSERT INTO rota.events (namespace, kind, subject, detail, data)
    SELECT '*', 'scheduler.takeover', t.taker::text, t.shards || ' shards of ' || coalesce(s.host, t.silent::text),
           json_build_object('schedulerId', t.taker, 'from', t.silent, 'shards', t.shards)::text
      FROM (SELECT l.owner AS taker, b.owner AS silent, count(*) AS shards
              FROM before AS b JOIN later AS l ON l.shard = b.shard
             WHERE b.owner IS NOT NULL AND l.owner IS NOT NULL AND l.owner <> b.owner
             GROUP BY l.owner, b.owner) AS t
      LEFT JOIN rota.schedulers AS s ON s.id = t.silent;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_takeover AFTER UPDATE ON rota.shard_leases
    REFERENCING OLD TABLE AS before NEW TABLE AS later FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_takeover();
