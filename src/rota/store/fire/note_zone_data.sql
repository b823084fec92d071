-- Records with which zone data the stored times were computed.
-- Index: none: one row.
-- Locks: that row.
UPDATE rota.constants SET zone_data = :version
