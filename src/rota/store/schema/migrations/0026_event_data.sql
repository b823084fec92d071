-- What happened, for programs: events carry values beside their words.
ALTER TABLE rota.events ADD COLUMN data text;  -- an object (JSON); null: none
