-- Prepares this transaction for a list: a statement that takes longer than this ends, and lists may use an index without an
-- order and sort what it finds.
-- Index: none
-- Locks: none
SELECT set_config('statement_timeout', :milliseconds::text, true), set_config('enable_bitmapscan', 'on', true),
       set_config('enable_sort', 'on', true)
