-- What was fixed when the database was made.
SELECT shards FROM rota.constants
