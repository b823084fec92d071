-- Makes members of a map that failed once more, with what they were given: if it is open, and its generation, how many were
-- made and the workflow run are as they were read; else nothing, since another scheduler has taken some. Workflow runs get a note to run again what failed in them. Members of which no run could be
-- made fail again. Dead letters are taken back. The map is done with it when none is left. Gives how many were taken.
-- Index: primary keys, workflow_runs_carried.
-- Locks: none of its own: callers have locked the workflow run.
-- Idioms: by_id.
WITH flow AS MATERIALIZED (
    SELECT w.namespace, w.id, w.shard, w.nominal_at FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.id = :flow AND w.ended_at IS NULL AND NOT w.is_paused
       AND (w.stop IS NULL OR (w.stop = 'failure' AND :is_handler::boolean))
), map AS MATERIALIZED (
    SELECT m.namespace, m.flow, m.node, f.shard, f.nominal_at
      FROM flow AS f JOIN rota.workflow_maps AS m ON m.namespace = f.namespace AND m.flow = f.id
      JOIN rota.workflow_nodes AS n ON n.namespace = m.namespace AND n.flow = m.flow AND n.node = m.node
     WHERE n.state = 'open' AND m.node = :node AND m.generation = :generation AND m.made = :made AND m.is_redone AND NOT m.is_failing
), taken AS MATERIALIZED (
    SELECT f.* FROM map AS m
      JOIN rota.map_failures AS f ON f.namespace = m.namespace AND f.flow = m.flow AND f.node = m.node
     WHERE f.is_redone
     ORDER BY f.item LIMIT :limit
), numbered AS MATERIALIZED (
    SELECT t.*, row_number() OVER (ORDER BY t.item) AS place FROM taken AS t WHERE t.run_id IS NOT NULL
), forgotten AS (
    DELETE FROM rota.map_failures AS f USING numbered AS t
     WHERE f.namespace = t.namespace AND f.flow = t.flow AND f.node = t.node AND f.item = t.item
), refused AS (
    UPDATE rota.map_failures AS f SET is_redone = false FROM taken AS t
     WHERE f.namespace = t.namespace AND f.flow = t.flow AND f.node = t.node AND f.item = t.item AND t.run_id IS NULL
    RETURNING f.item
), raised AS (
    DELETE FROM rota.dead_letters AS d
     WHERE rota.by_id(d.namespace) = :namespace AND d.run_id = ANY (ARRAY(SELECT run_id FROM numbered))
), moved AS (
    UPDATE rota.workflow_maps AS m
       SET made = m.made + (SELECT count(*) FROM taken), ended = m.ended + (SELECT count(*) FROM refused),
           failed = m.failed + (SELECT count(*) FROM refused),
           is_failing = m.tolerated IS NOT NULL AND m.failed + (SELECT count(*) FROM refused) > m.tolerated,
           is_redone = (SELECT count(*) FROM taken) >= :limit
      FROM map AS f WHERE m.namespace = f.namespace AND m.flow = f.flow AND m.node = f.node
), made AS MATERIALIZED (
    SELECT m.namespace, i.id, m.flow AS job_id, m.node AS job_version, :owner::text AS owner, :name::text AS name,
           :task::text AS task, :pool::text AS pool, :priority::smallint AS priority,
           string_to_array(:tags::text, ',') AS tags, t.payload, t.payload_id,
           ((:options::text)::jsonb || jsonb_build_object('item', t.item))::text AS options, 'member'::text AS cause,
           t.run_id AS retry_of, encode(substr(sha256(convert_to(:key_prefix || '/' || t.item, 'UTF8')), 1, 16), 'hex')::uuid AS root_id, m.shard, m.nominal_at,
           now() AS run_at, 0 AS attempt, 0 AS losses, now() AS created_at, rota.expiry_of(:options::text, now()) AS expires_at,
           NULL::text AS checkpoint, 0 AS snoozes, :policies::jsonb AS policies
      FROM map AS m
     CROSS JOIN numbered AS t
      JOIN unnest(:ids::uuid[]) WITH ORDINALITY AS i (id, place) ON i.place = t.place
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made
     WHERE policies IS NULL AND NOT :is_child::boolean
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL AND NOT :is_child::boolean
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow)
    SELECT shard, namespace, flow FROM map WHERE (SELECT count(*) FROM taken) < :limit
), resumed AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow, node, outcome, run_id)
    SELECT w.shard, w.namespace, w.id, n.job_version, 'resume', n.id
      FROM made AS n JOIN rota.workflow_runs AS w ON w.namespace = n.namespace AND w.carrier_id = n.retry_of
     WHERE :is_child::boolean
)
SELECT (SELECT count(*) FROM taken) AS taken FROM map
