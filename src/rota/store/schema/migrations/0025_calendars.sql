-- Business calendars: named lists of days that schedules leave out.
CREATE TABLE rota.calendars (
    namespace      text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    revision       uuid NOT NULL,                        -- another one with each change of its days
    days           text NOT NULL,                        -- dates in order (JSON)
    number_of_days integer NOT NULL,
    changed_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

-- A process of a release that doesn't know excluded days would compute a schedule's next fire time without them, and fire
-- it. It doesn't know excluded_next_at either, so its statement fails: it passes over this schedule, as over any that it
-- can't fire, and leaves it to a process that knows it.
ALTER TABLE rota.jobs
    ADD COLUMN excluded         text,
    ADD COLUMN excluded_next_at timestamptz,
    ADD CONSTRAINT jobs_excluded_next CHECK (excluded IS NULL OR excluded_next_at IS NOT DISTINCT FROM next_fire_at)
        NOT VALID;
CREATE INDEX jobs_excluded ON rota.jobs (namespace) WHERE excluded IS NOT NULL;
