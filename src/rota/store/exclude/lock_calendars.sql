-- Keeps the calendars of a namespace as they are until the transaction ends: `changes` for the one that changes them,
-- which waits for those that write schedules with their days, and keeps new ones waiting. Taken before the lock of
-- dependencies and the rows of jobs.
-- Index: none
-- Locks: an advisory lock per namespace, in the order given; shared, unless it changes them.
SELECT CASE WHEN :changes::boolean
            THEN pg_advisory_xact_lock(hashtextextended('rota calendars ' || namespace, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended('rota calendars ' || namespace, 0)) END
  FROM unnest(:namespaces::text[]) AS namespace
