-- What a run can be found by, as a number: its owner (kind 1), task (2), name (3), a tag (4) or status (5). `period`: the first
-- seven digits of its id, about 17 minutes of planned time, or '' for all times. Two values may have the same number, so
-- statements compare the columns as well.
CREATE FUNCTION rota.label(period text, namespace text, kind integer, value text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended((period || value) COLLATE "C", hashtextextended(namespace COLLATE "C", kind));
