-- Alerts: rules as data, how each alert stands, silences, and what rules are measured from.

-- Rules. What a rule does not say comes from its kind (domain/alerts.py).
CREATE TABLE rota.alert_rules (
    namespace  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    enabled    boolean NOT NULL DEFAULT true,
    settings   text NOT NULL,
    revision   bigint NOT NULL DEFAULT 0,
    error      text,
    error_at   timestamptz,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);
INSERT INTO rota.alert_rules (namespace, name, kind, settings, changed_by, changed_at)
SELECT '*', replace(kind, '_', '-'), kind, '{}', 'rota', timestamptz '2026-11-18 00:00:00Z'
  FROM unnest(ARRAY['start_lag', 'success_rate', 'dead_letters', 'oldest_queued', 'no_worker', 'schedule_overdue',
                    'job_failures', 'breaker_open', 'worker_lost', 'scheduler_lost', 'disk', 'clock_skew']) AS kind;

CREATE TABLE rota.alert_states (
    rule_namespace text COLLATE "C" NOT NULL,
    rule           text COLLATE "C" NOT NULL,
    namespace      text COLLATE "C" NOT NULL,
    key            text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    phase          text NOT NULL CHECK (phase IN ('pending', 'firing', 'resolved')),
    severity       text NOT NULL,
    subject        text NOT NULL,
    title          text NOT NULL,
    act            text NOT NULL,
    value          double precision NOT NULL,
    threshold      double precision NOT NULL,
    job_id         uuid,
    owner          text,
    since          timestamptz NOT NULL,
    good_since     timestamptz,
    fired_at       timestamptz,
    resolved_at    timestamptz,
    told           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (rule_namespace, rule, namespace, key),
    FOREIGN KEY (rule_namespace, rule) REFERENCES rota.alert_rules (namespace, name) ON DELETE CASCADE
);
CREATE INDEX alert_states_of_namespace ON rota.alert_states (namespace, since);
CREATE INDEX alert_states_resolved ON rota.alert_states (resolved_at) WHERE phase = 'resolved';

CREATE TABLE rota.alert_silences (
    namespace  text COLLATE "C" NOT NULL,
    id         uuid NOT NULL,
    rule       text COLLATE "C",
    key        text COLLATE "C",
    until      timestamptz NOT NULL,
    reason     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id)
);

-- What started and ended in each minute, of the last hours, from the tallies.
CREATE TABLE rota.alert_minutes (
    namespace text COLLATE "C" NOT NULL,
    pool      text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL,
    started   bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    lags      bigint[] NOT NULL,
    PRIMARY KEY (namespace, pool, at)
);
CREATE INDEX alert_minutes_latest ON rota.alert_minutes (at);

-- Schedules that fired after their time: the dead-man's switch reports them even though they caught up.
CREATE TABLE rota.late_fires (
    namespace  text COLLATE "C" NOT NULL,
    job_id     uuid NOT NULL,
    nominal_at timestamptz NOT NULL,
    fired_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace, job_id)
);
CREATE INDEX late_fires_latest ON rota.late_fires (fired_at);

-- When the outside monitor was last told that all is well, in one row.
CREATE TABLE rota.outside_heartbeats (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at       timestamptz NOT NULL
);

-- How far the wall clock of a process is ahead of the database's, in seconds; null: not told.
ALTER TABLE rota.schedulers ADD COLUMN clock_skew double precision;
ALTER TABLE rota.workers ADD COLUMN clock_skew double precision;

CREATE INDEX gates_open ON rota.gates (namespace, key) WHERE kind = 'breaker' AND state <> 'closed';
