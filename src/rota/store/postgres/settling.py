"""Writing to a run that may move while we look for it.

A statement sees every run in exactly one place, but the place it saw may be empty by the time it gets the row's lock,
and the new one is not in its snapshot. So a writer that hit nothing looks again in a new statement, until it hit the
run or found it finished. Each look costs the other side a whole move, so the loop is short; LOOKS bounds it against a
fault of ours.
"""

from __future__ import annotations

LOOKS = 100
LOOK_AGAIN_SECONDS = 0.005
