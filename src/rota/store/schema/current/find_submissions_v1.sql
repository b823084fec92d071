-- The first answers to requests that are repeated, for programs that submit in transactions of their own: they look a
-- key up before they refuse a job whose time has passed since (gateway/transaction.py). Versioned like submit_v1.
--
-- Takes a JSON array of objects with namespace, key and requestHash. Returns a JSON array with one answer each, in the
-- same order: repeated and same, as submit_v1 answers, or null for a key that is not known.
CREATE FUNCTION rota.find_submissions_v1(requests text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    bound text[] := (SELECT b.namespaces FROM rota.bound_to() AS b);
BEGIN
    RETURN (
        SELECT coalesce(jsonb_agg(k.answer ORDER BY i.place), '[]')::text
          FROM jsonb_array_elements(requests::jsonb) WITH ORDINALITY AS i (request, place)
          LEFT JOIN LATERAL (
               SELECT jsonb_build_object('repeated', k.answer,
                          'same', k.request_hash = decode(i.request ->> 'requestHash', 'hex')) AS answer
                 FROM rota.submission_keys AS k
                WHERE k.namespace = i.request ->> 'namespace' AND k.kind = 'idempotency'
                  AND k.key = i.request ->> 'key' AND k.expires_at >= clock_timestamp()
                  AND (k.namespace = ANY (bound)) IS NOT FALSE
               OFFSET 0) AS k ON true);
END
$$;
