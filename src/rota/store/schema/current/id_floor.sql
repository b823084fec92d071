-- The smallest id of a moment: day partitions begin at it, and time filters compare with it.
CREATE FUNCTION rota.id_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
