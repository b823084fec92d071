-- With which zone data the stored times were computed last; null: not known.
SELECT zone_data FROM rota.constants
