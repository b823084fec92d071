"""Worker processes of one parent: started when they are needed, drained when they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.ops.supervised_process import SupervisedProcess
from rota.service import ServiceGroup


class ChildWorkers:
    """Workers in a group of services. One that drains finishes its runs, however long the parent lets it."""

    def __init__(
        self, group: ServiceGroup, make: Callable[[str], SupervisedProcess], *, patience: Callable[[], float]
    ) -> None:
        """`make`: makes a worker by its name. `patience`: the seconds that one has to end before it is killed."""
        self.group = group
        self.active: list[SupervisedProcess] = []
        self._make = make
        self._patience = patience
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def draining(self) -> int:
        """How many have not ended yet."""
        return len(self._ending)

    def start(self, name: str) -> None:
        worker = self._make(name)
        self.active.append(worker)
        self.group.add(worker)

    def drain(self, worker: SupervisedProcess) -> None:
        """Lets it finish its runs, and starts it no more."""
        self.active.remove(worker)
        ending = asyncio.create_task(self._end(worker), name=f"old {worker.name}")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Ends all of them, and waits for those that drain."""
        await asyncio.gather(*(worker.stop(self._patience()) for worker in self.active), *self._ending)

    async def _end(self, worker: SupervisedProcess) -> None:
        await worker.stop(self._patience())
        await self.group.stop(worker)
