"""The schema: its migrations, the partitions of each day, and the rights of database roles."""

from __future__ import annotations

# A change of the schema or its rights holds this advisory lock for its transaction, not the session: a pooler in
# transaction mode does not keep a session for us.
LOCK_KEY = 7682
