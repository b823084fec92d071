-- Holds an application against other reconcilers until the transaction ends.
-- Index: primary key.
-- Locks: the application's row.
INSERT INTO rota.apps AS a (namespace, app) VALUES (:namespace, :app)
ON CONFLICT (namespace, app) DO UPDATE SET app = excluded.app
