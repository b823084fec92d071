"""The clock before and after: APScheduler and Rota run for real, and what they did is compared."""

from __future__ import annotations

from itertools import pairwise

from stage import EXAMPLES, end

from support import eventually

HERE = EXAMPLES / "from_apscheduler"
KINDS = {"begin hall", "end hall", "chime", "good morning, ada"}
ENOUGH = 2


async def outcome(folder):
    """The kinds of notes, how often ada was woken, and whether two sweeps overlapped."""

    def lines():
        notes = folder / "notes"
        found = notes.read_text().splitlines() if notes.exists() else []
        often = found.count("end hall") >= ENOUGH and found.count("chime") >= ENOUGH
        return found if often and set(found) == KINDS else None

    found = await eventually(lines, within=60)
    sweeps = [line for line in found if line.endswith("hall")]
    overlap = any(one == other for one, other in pairwise(sweeps))
    return set(found), found.count("good morning, ada"), overlap


async def test_the_clock_does_the_same_before_and_after(stage, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    scheduler = stage.start("-m", "before.clock", directory=HERE, CLOCK_FOLDER=str(before))
    with stage.worker("after.clock:app", directory=HERE, CLOCK_FOLDER=str(after)):
        assert "wakes ada" in stage.run("-m", "after.wake", directory=HERE, CLOCK_FOLDER=str(after))
        assert await outcome(after) == await outcome(before) == (KINDS, 1, False)
    end(scheduler)
