"""The schema: its migrations, the partitions of each day, and the rights of database roles."""

from __future__ import annotations

# Whoever changes the schema or its rights holds this lock for the transaction, not the session: a pooler in transaction
# mode may not keep a session for us.
LOCK_KEY = 7682
