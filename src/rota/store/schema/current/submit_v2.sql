-- As submit_v1, for programs whose jobs have ids of their choice (`chosenId`): a schema without this function would not
-- keep them. A job whose id is taken gets the answer {"taken": true}.
CREATE FUNCTION rota.submit_v2(jobs text) RETURNS text
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN rota.submit_v1(jobs);
