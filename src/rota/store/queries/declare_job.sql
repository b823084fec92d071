-- Makes a job of a declared schedule. $1 namespace; $2 id; $3 owner; $4 name; $5 task; $6 pool; $7 priority; $8 tags; $9 payload;
-- $10 options; $11 shard; $12 schedule type; $13 cron expression; $14 interval; $15 time zone; $16 anchor; $17 next fire time (null: none
-- any more); $18 policies; $19 misfire rule; $20 start; $21 end; $22 jitter; $23 rule for clock changes; $24 application.
INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, schedule_type, cron_expression,
                       every_seconds, timezone, anchor_at, state, next_fire_at, fired_through, policies, misfire, start_at, end_at,
                       jitter_seconds, dst, app)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text[], $9::text, $10, $11, $12, $13::text, $14::float8, $15, $16,
        CASE WHEN $17::timestamptz IS NULL THEN 'completed' ELSE 'scheduled' END, $17, now(), $18::jsonb, $19::text, $20::timestamptz,
        $21::timestamptz, $22, $23::text, $24)
