-- Removes alerts that were resolved long ago, late fires that no rule looks at any more, and silences that have ended.
-- Index: alert_states_resolved, late_fires_latest.
-- Locks: the rows it removes.
WITH late AS (
    DELETE FROM rota.late_fires WHERE fired_at < now() - :kept::interval
), ended AS (
    DELETE FROM rota.alert_silences WHERE until < now() - :kept::interval
)
DELETE FROM rota.alert_states WHERE phase = 'resolved' AND resolved_at < now() - :kept::interval
