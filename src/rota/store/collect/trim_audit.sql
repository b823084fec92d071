-- Removes entries of the audit trail that are older than the namespace's policy says; see the function.
-- Index: audit_of_namespace.
-- Locks: the rows it deletes.
SELECT rota.trim_audit(:namespace, :limit)
