-- Takes a verified period out of history, and says so in rota.archives, in one transaction. Null: done. Else why not:
-- 'late' rows came since it was written; or what still needs it; or 'busy', when a table is in use: try again.
-- DETACH locks the parents out. It waits for that a fifth of a second at most, and then holds it for a few milliseconds;
-- CONCURRENTLY can't be done in the same transaction, and not with an owner's rights. Renamed, so that make_day can make
-- the day again for a late run.
CREATE FUNCTION rota.detach_day(day text, part integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '200ms'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    archive rota.archives;
    parent  text;
    reason  text;
BEGIN
    SELECT * INTO archive FROM rota.archives AS a WHERE a.period = day AND a.number = part FOR UPDATE;
    IF archive.state IS DISTINCT FROM 'verified' THEN
        RETURN 'it is not verified';
    END IF;
    reason := rota.holds_day(archive.first_id, archive.before_id);
    IF reason IS NOT NULL THEN
        RETURN reason;
    END IF;
    LOCK TABLE rota.attempts, rota.kept_logs, rota.finished_runs IN ACCESS EXCLUSIVE MODE;
    -- Late rows are committed, or their transaction begins again and makes the day anew: nothing is under way now.
    IF EXISTS (SELECT FROM rota.late_ends AS l WHERE l.period = day) THEN
        RETURN 'late';
    END IF;
    reason := rota.holds_day(archive.first_id, archive.before_id);
    IF reason IS NOT NULL THEN
        RETURN reason;
    END IF;
    FOREACH parent IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        CONTINUE WHEN to_regclass('rota.' || parent || '_' || day) IS NULL;
        EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I', parent, parent || '_' || day);
        EXECUTE format('ALTER TABLE rota.%I RENAME TO %I', parent || '_' || day,
                       'archived_' || parent || '_' || day || '_' || part);
    END LOOP;
    UPDATE rota.archives AS a
       SET state = 'detached', revision = a.revision + 1, error = NULL, restored_until = NULL, changed_at = now()
     WHERE a.period = day AND a.number = part;
    RETURN NULL;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN 'busy';
END
$$;
