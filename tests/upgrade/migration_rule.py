"""What a migration may not do: the rule of docs/decisions/0015-expand-then-contract.md, as far as a machine can tell.

It reads SQL the plain way: comments, quoted text and the bodies of functions are taken out, and what is left is split
at semicolons. That is enough for migrations, which are short and written for people.
"""

from __future__ import annotations

import re

_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1|'(?:[^']|'')*'", re.DOTALL)
_MADE = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?rota\.(\w+)")
_MADE_FUNCTION = re.compile(r"CREATE FUNCTION rota\.(\w+)")
_REVOKED_FUNCTION = re.compile(r"^REVOKE \w+(?: PRIVILEGES)? ON FUNCTION rota\.(\w+)")
_TABLE = re.compile(
    r"(?:ALTER TABLE (?:IF EXISTS )?(?:ONLY )?|INDEX (?:IF NOT EXISTS )?\w+ ON |UPDATE |DELETE FROM )rota\.(\w+)"
)
_NEVER = {
    r"^DROP ": "drops what the release before still uses",
    r" RENAME ": "renames what the release before still calls by its name",
    r" DROP COLUMN ": "drops a column that the release before still names",
    r"^(TRUNCATE|LOCK|CLUSTER|REINDEX|VACUUM)\b": "locks everybody out",
    r"^REVOKE ": "takes rights that the release before needs",
}
_ON_WHAT_WAS_THERE = {
    r"ALTER COLUMN \w+ (SET DATA )?TYPE ": "changes a type: a table is written anew, and old code sends the old type",
    r" SET NOT NULL": "refuses rows that the release before writes",
    r" DROP DEFAULT": "refuses rows that the release before writes",
    r" GENERATED ALWAYS AS ": "writes the whole table anew under a lock",
    r"ADD COLUMN .*DEFAULT (gen_random_uuid|clock_timestamp|random|nextval)\b": "writes the whole table anew",
    r"^CREATE UNIQUE INDEX ": "refuses rows that the release before writes",
    r" ENABLE ROW LEVEL SECURITY": "hides rows from the release before",
    r"^UPDATE ": "changes many rows under a lock: let a service do it in small steps",
    r"^DELETE ": "removes many rows under a lock: let a service do it in small steps",
}
# An index over these is built while nobody can write to them.
LARGE = {
    *("upcoming_runs", "held_runs", "live_runs", "finished_runs", "attempts", "dead_letters", "submission_keys"),
    *("payloads", "jobs", "chosen_ids", "log_chunks", "kept_logs", "audit", "events"),
}


def faults_of(sql: str) -> list[str]:
    """What is wrong with a migration, one line each."""
    statements = [" ".join(part.split()) for part in _NOISE.sub(" ", sql).split(";")]
    made = {name for statement in statements for name in _MADE.findall(statement)}
    functions = {name for statement in statements for name in _MADE_FUNCTION.findall(statement)}
    statements = [statement for statement in statements if not _closes_what_is_new(statement, functions)]
    return [f"{why}: {statement}" for statement in statements for why in _faults(statement, made)]


def _closes_what_is_new(statement: str, functions: set[str]) -> bool:
    """Everyone may call a new function until that is revoked; the release before does not know it."""
    revoked = _REVOKED_FUNCTION.search(statement)
    return revoked is not None and revoked[1] in functions


def _faults(statement: str, made: set[str]) -> list[str]:
    found = [why for pattern, why in _NEVER.items() if re.search(pattern, statement)]
    table = _TABLE.search(statement)
    if table and table[1] not in made:
        found += [why for pattern, why in _ON_WHAT_WAS_THERE.items() if re.search(pattern, statement)]
        found += _of_columns(statement) + _of_constraints(statement)
        if re.search("^CREATE INDEX ", statement) and table[1] in LARGE:
            found.append("builds an index over a large table while nobody can write to it")
    return found


def _of_columns(statement: str) -> list[str]:
    columns = re.findall(r"ADD COLUMN (?:(?!, (?:ADD|ALTER|DROP) ).)*", statement)
    needy = [column for column in columns if "NOT NULL" in column and "DEFAULT" not in column]
    return ["adds a column that the release before does not fill"] * len(needy)


def _of_constraints(statement: str) -> list[str]:
    """A constraint may be replaced by a wider one, in one statement; that it is wider is for people to see."""
    dropped = set(re.findall(r"DROP CONSTRAINT (\w+)", statement))
    added = re.findall(r"ADD (?:CONSTRAINT (\w+)|CHECK|UNIQUE|PRIMARY KEY|FOREIGN KEY|EXCLUDE)", statement)
    return ["adds a constraint that the release before does not know"] * sum(name not in dropped for name in added)
