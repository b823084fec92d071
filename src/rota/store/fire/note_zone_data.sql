-- Notes with which zone data the stored times were computed. :version its version.
UPDATE rota.constants SET zone_data = :version
