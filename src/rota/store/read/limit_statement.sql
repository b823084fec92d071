-- Ends the statements of this transaction that take longer than this.
-- Index: none
-- Locks: none
SELECT set_config('statement_timeout', :milliseconds::text, true)
