-- What still needs the runs of a period: null, or a word for it. Reads a few entries of each index, namespace by namespace.
CREATE FUNCTION rota.holds_day(first uuid, before uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    space text := '';
BEGIN
    IF EXISTS (SELECT FROM rota.operations AS o WHERE o.ended_at IS NULL AND o.kind IN ('replay', 'redrive')) THEN
        RETURN 'an open operation reads history';
    END IF;
    IF EXISTS (SELECT FROM rota.workflow_runs AS w WHERE w.ended_at IS NULL
                  AND (w.id >= first AND w.id < before OR w.carrier_id >= first AND w.carrier_id < before)) THEN
        RETURN 'a workflow run is open';
    END IF;
    LOOP
        SELECT min(n.namespace COLLATE "C") INTO space
          FROM (
                (SELECT r.namespace FROM rota.live_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.upcoming_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.held_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.dead_letters AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.dependencies AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
               ) AS n;
        EXIT WHEN space IS NULL;
        IF EXISTS (SELECT FROM rota.live_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before)
           OR EXISTS (SELECT FROM rota.upcoming_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before)
           OR EXISTS (SELECT FROM rota.held_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before) THEN
            RETURN 'a run has not ended';
        END IF;
        IF EXISTS (SELECT FROM rota.dead_letters AS d
                    WHERE d.namespace = space AND d.run_id >= first AND d.run_id < before) THEN
            RETURN 'a dead letter was not dealt with';
        END IF;
        IF EXISTS (SELECT FROM rota.dependencies AS d
                    WHERE d.namespace = space AND d.needs >= first AND d.needs < before AND d.look_at IS NOT NULL) THEN
            RETURN 'a job depends on a run';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
