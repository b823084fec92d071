-- Holds an application against whoever else would reconcile it, until the transaction ends. :namespace namespace; :app name. Primary key.
INSERT INTO rota.apps AS a (namespace, app) VALUES (:namespace, :app)
ON CONFLICT (namespace, app) DO UPDATE SET app = excluded.app
