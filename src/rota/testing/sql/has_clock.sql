-- Whether this is a database of the test kit.
SELECT to_regclass('rota_time.clock') IS NOT NULL
