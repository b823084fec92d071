-- Notes with which zone data the stored times were computed. $1 its version.
UPDATE rota.constants SET zone_data = $1
