-- What our database role is bound to; null: not at all.
-- Index: none
-- Locks: none
SELECT session_user AS role, b.namespaces, b.pools FROM rota.bound_to() AS b
