"""A database's schema as text, object by object, and how two of them differ."""

from __future__ import annotations

import difflib
import re
from typing import Any

Catalog = dict[str, list[str]]


def _sorted(array: str) -> str:
    return f"nullif(array(SELECT unnest({array})::text ORDER BY 1)::text, '{{}}')"


# Relations of the schema; partitions are left out, they are made day by day from their parents.
_RELATIONS = """
(SELECT c.*, CASE relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' WHEN 'r' THEN 'table ' WHEN 'p' THEN 'table '
                          ELSE relkind::text || ' ' END || relname AS object
   FROM pg_class AS c
  WHERE relnamespace = 'rota'::regnamespace AND NOT relispartition AND relkind NOT IN ('i', 'I')) AS c"""

# Each gives an object and a line about it, in the order of lines.
_LINES = (
    f"""
SELECT 'schema rota', concat('rights ', {_sorted("coalesce(nspacl, acldefault('n', nspowner))")})
  FROM pg_namespace WHERE nspname = 'rota'""",
    f"""
SELECT c.object, unnest(array_remove(ARRAY[
           'persistence ' || nullif(c.relpersistence::text, 'p'),
           'partitioned by ' || pg_get_partkeydef(c.oid),
           'with ' || {_sorted("c.reloptions")},
           'toast with ' || {_sorted("toast.reloptions")},
           'row level security ' || nullif(concat(c.relrowsecurity, ' forced ', c.relforcerowsecurity), 'f forced f'),
           'replica identity ' || c.relreplident::text,
           'rights ' || {_sorted("coalesce(c.relacl, acldefault(rights.kind, c.relowner))")}], NULL))
  FROM {_RELATIONS}
  LEFT JOIN pg_class AS toast ON toast.oid = c.reltoastrelid
 CROSS JOIN LATERAL (SELECT CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char") AS rights (kind)""",
    f"""
SELECT c.object, concat_ws(' ', 'column', a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attcollation <> y.typcollation THEN concat('collate ', a.attcollation::regcollation) END,
           CASE WHEN a.attnotnull THEN 'not null' END,
           CASE a.attgenerated WHEN '' THEN 'default ' ELSE concat('generated ', a.attgenerated, ' ') END
               || pg_get_expr(d.adbin, d.adrelid),
           'identity ' || nullif(a.attidentity::text, ''),
           'storage ' || nullif(a.attstorage::text, y.typstorage::text),
           'compression ' || nullif(a.attcompression::text, ''),
           'statistics ' || nullif(a.attstattarget, -1), 'with ' || a.attoptions::text, 'rights ' || a.attacl::text)
  FROM {_RELATIONS}
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type AS y ON y.oid = a.atttypid
  LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relkind <> 'S' ORDER BY c.object, a.attnum""",
    # What must not be null is said with the column; from version 18 on it is a constraint as well.
    f"""
SELECT c.object, concat_ws(' ', 'constraint', o.conname, pg_get_constraintdef(o.oid))
  FROM {_RELATIONS} JOIN pg_constraint AS o ON o.conrelid = c.oid WHERE o.contype <> 'n' ORDER BY 1, 2""",
    f"""
SELECT c.object, concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), CASE WHEN NOT i.indisvalid THEN 'invalid' END)
  FROM {_RELATIONS} JOIN pg_index AS i ON i.indrelid = c.oid ORDER BY 1, 2""",
    f"""
SELECT c.object, concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled)
  FROM {_RELATIONS} JOIN pg_trigger AS t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal ORDER BY 1, 2""",
    f"""
SELECT c.object, concat_ws(' ', 'policy', p.policyname, p.permissive, p.cmd, 'to', p.roles::text, 'using', p.qual,
                           'check', p.with_check)
  FROM {_RELATIONS} JOIN pg_policies AS p ON p.schemaname = 'rota' AND p.tablename = c.relname ORDER BY 1, 2""",
    f"""
SELECT c.object, concat_ws(' ', s.seqtypid::regtype, 'from', s.seqstart, 'by', s.seqincrement, 'between', s.seqmin,
           s.seqmax, 'cache', s.seqcache, CASE WHEN s.seqcycle THEN 'cycle' END,
           (SELECT concat('of ', d.refobjid::regclass, ' ', a.attname) FROM pg_depend AS d
              JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
             WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')))
  FROM {_RELATIONS} JOIN pg_sequence AS s ON s.seqrelid = c.oid""",
    f"""
SELECT c.object, unnest(string_to_array(pg_get_viewdef(c.oid, true), E'\\n'))
  FROM {_RELATIONS} WHERE c.relkind = 'v'""",
)

_FUNCTIONS = f"""
SELECT concat('function ', p.oid::regprocedure), pg_get_functiondef(p.oid),
       concat('rights ', {_sorted("coalesce(p.proacl, acldefault('f', p.proowner))")})
  FROM pg_proc AS p WHERE p.pronamespace = 'rota'::regnamespace"""

_TABLES = f"SELECT relname FROM {_RELATIONS} WHERE relkind IN ('r', 'p') AND relname <> 'migrations'"

_TOKEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\w+|->>?|::|:=|<>|[<>]=|\|\||[^\w\s]", re.DOTALL)
_BREAK = re.compile(r"(;|,|\b(?:BEGIN|THEN|ELSE|LOOP|DECLARE))(?= )")


async def read_catalog(connection: Any) -> Catalog:
    """Everything in the schema `rota`: its objects, and the rows that come with them."""
    found: Catalog = {}
    for query in _LINES:
        for name, line in await connection.fetch(query):
            found.setdefault(name, []).append(line)
    for name, definition, rights in await connection.fetch(_FUNCTIONS):
        found[name] = [*_pieces(definition), rights]
    for (table,) in await connection.fetch(_TABLES):
        rows = [row[0] for row in await connection.fetch(f"SELECT to_jsonb(t)::text FROM rota.{table} AS t ORDER BY 1")]
        if rows:
            found[f"rows of {table}"] = rows
    return found


def differences(ours: Catalog, theirs: Catalog) -> str:
    """For each object that differs: the lines that only we have (-), and those that only they have (+)."""
    found: list[str] = []
    for name in sorted(ours.keys() | theirs.keys()):
        lines = difflib.unified_diff(ours.get(name, []), theirs.get(name, []), n=1, lineterm="")
        if changed := [f"  {line}" for line in lines if not line.startswith(("---", "+++", "@@"))]:
            found += [f"{name}:", *changed]
    return "\n".join(found)


def _pieces(definition: str) -> list[str]:
    """A function's definition without comments and layout, broken at fixed places."""
    words = " ".join(token for token in _TOKEN.findall(definition) if not token.startswith(("--", "/*")))
    return [line.strip() for line in _BREAK.sub(r"\1\n", words).split("\n")]
