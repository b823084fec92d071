-- Alerts: rules, how each alert stands, silences, and what rules are measured from.

-- Rules. What a rule does not say comes from its kind (domain/alerts.py). A rule of a namespace takes the place of the
-- installation's rule of the same name there.
CREATE TABLE rota.alert_rules (
    namespace  text COLLATE "C" NOT NULL,           -- '*': the installation's
    name       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,           -- what it measures
    enabled    boolean NOT NULL DEFAULT true,
    settings   text NOT NULL,                       -- window, threshold, severity, filters, … (JSON)
    revision   bigint NOT NULL DEFAULT 0,           -- grows with each change of the rule and of its alerts
    error      text,                                -- why it could not be evaluated; null: it was
    error_at   timestamptz,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);
INSERT INTO rota.alert_rules (namespace, name, kind, settings, changed_by, changed_at)
SELECT '*', replace(kind, '_', '-'), kind, '{}', 'rota', timestamptz '2026-11-18 00:00:00Z'
  FROM unnest(ARRAY['start_lag', 'success_rate', 'dead_letters', 'oldest_queued', 'no_worker', 'schedule_overdue',
                    'job_failures', 'breaker_open', 'worker_lost', 'scheduler_lost', 'disk', 'clock_skew']) AS kind;

-- How each alert stands: a rule, and what it is about. Written only under the lock of the rule's row, in the transaction
-- that records the event.
CREATE TABLE rota.alert_states (
    rule_namespace text COLLATE "C" NOT NULL,
    rule           text COLLATE "C" NOT NULL,
    namespace      text COLLATE "C" NOT NULL,       -- what it is about; '*': the installation
    key            text COLLATE "C" NOT NULL,       -- which pool, job, worker, …
    kind           text COLLATE "C" NOT NULL,
    phase          text NOT NULL CHECK (phase IN ('pending', 'firing', 'resolved')),
    severity       text NOT NULL,
    subject        text NOT NULL,
    title          text NOT NULL,                   -- a sentence
    act            text NOT NULL,                   -- the next thing to do: a command
    value          double precision NOT NULL,       -- measured last
    threshold      double precision NOT NULL,
    job_id         uuid,
    owner          text,                            -- whose job it is about; null: of no user in particular
    since          timestamptz NOT NULL,            -- the condition has held since
    good_since     timestamptz,                     -- firing, and the condition has not held since
    fired_at       timestamptz,
    resolved_at    timestamptz,
    told           boolean NOT NULL DEFAULT false,  -- whether an event said that it fires; false: it is silenced
    PRIMARY KEY (rule_namespace, rule, namespace, key),
    FOREIGN KEY (rule_namespace, rule) REFERENCES rota.alert_rules (namespace, name) ON DELETE CASCADE
);
CREATE INDEX alert_states_of_namespace ON rota.alert_states (namespace, since);
CREATE INDEX alert_states_resolved ON rota.alert_states (resolved_at) WHERE phase = 'resolved';

-- Alerts that are not told until a time.
CREATE TABLE rota.alert_silences (
    namespace  text COLLATE "C" NOT NULL,           -- '*': the installation's, which holds everywhere
    id         uuid NOT NULL,
    rule       text COLLATE "C",                    -- null: any
    key        text COLLATE "C",                    -- null: any
    until      timestamptz NOT NULL,
    reason     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id)
);

-- What started and ended in each minute of the last hours, from the tallies.
CREATE TABLE rota.alert_minutes (
    namespace text COLLATE "C" NOT NULL,
    pool      text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    started   bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    lags      bigint[] NOT NULL,                    -- as in rota.tallies
    PRIMARY KEY (namespace, pool, at)
);
CREATE INDEX alert_minutes_latest ON rota.alert_minutes (at);

-- Schedules that fired after their time: the dead-man's switch reports them even though they caught up.
CREATE TABLE rota.late_fires (
    namespace  text COLLATE "C" NOT NULL,
    job_id     uuid NOT NULL,
    nominal_at timestamptz NOT NULL,                -- the earliest time that was late
    fired_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace, job_id)
);
CREATE INDEX late_fires_latest ON rota.late_fires (fired_at);

-- When the outside monitor was last told that all is well, in one row.
CREATE TABLE rota.outside_heartbeats (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at       timestamptz NOT NULL
);
