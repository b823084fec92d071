"""What the system knows of this process, read when someone asks."""

from __future__ import annotations

import resource

import psutil

from rota.metrics.catalogue import Metrics


def watch_process(metrics: Metrics) -> None:
    """Shows CPU time, memory and open files of this process."""
    process = psutil.Process()
    metrics.start_time.of().value = process.create_time()

    def read() -> None:
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_info()
            metrics.cpu.of().value = times.user + times.system
            metrics.memory.of().value = memory.rss
            metrics.virtual_memory.of().value = memory.vms
        metrics.open_files.of().value = process.num_fds()
        metrics.most_files.of().value = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    metrics.registry.before_reading(read)
