"""A scheduler and a worker moved by hand, to see who passes a gate."""

from __future__ import annotations

from typing import Any

TABLES = ("held_runs", "live_runs", "upcoming_runs", "finished_runs", "attempts", "departures", "gates", "events",
          "submission_keys")  # fmt: skip
EMPTY_TABLES = f"TRUNCATE {', '.join(f'rota.{name}' for name in TABLES)}"


class Gatekeeping:
    """A scheduler and a worker moved by hand."""

    def __init__(self, engine: Any, scheduler: Any, broker: Any) -> None:
        self.engine, self.scheduler, self.broker = engine, scheduler, broker

    async def admit(self):
        """Rounds of admission until one has nothing more to do."""
        admitted = 0
        for _ in range(50):
            self.scheduler.admitter._woken.clear()
            admitted += await self.scheduler.admitter.tick()
            if not self.scheduler.admitter._woken.is_set():
                return admitted
        raise AssertionError("admission never comes to rest")

    async def claim(self, room=100):
        await self.admit()
        return await self.broker.claim(room)

    async def waiting_for(self, run_id):
        run = await self.engine.run(run_id)
        return run["status"], run.get("waitingFor")


async def ids_of(claims):
    """The ids of the runs, as people see them."""
    return [f"run_{claim.run_id.hex}" for claim in claims]


async def time_of_schedule(gates, sql, job_id, ago):
    """A run of the job as its schedule would have made it, so many seconds ago; returns its id."""
    answer = await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    await sql.execute(
        "UPDATE rota.held_runs SET cause = 'schedule', nominal_at = now() - $1 * interval '1 second'"
        " WHERE cause = 'manual'",
        ago,
    )
    return answer.json()["runId"]
