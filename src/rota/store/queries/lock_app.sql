-- Holds an application against whoever else would reconcile it, until the transaction ends. $1 namespace; $2 name. Primary key.
INSERT INTO rota.apps AS a (namespace, app) VALUES ($1, $2)
ON CONFLICT (namespace, app) DO UPDATE SET app = excluded.app
