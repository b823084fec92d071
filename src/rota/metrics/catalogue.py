"""All metrics of Rota. docs/reference/metrics.md is made from this file.

A process counts what it did itself: workers attempts, schedulers fire times, and the process that writes a submission
counts it. What concerns the whole installation is shown by API servers (api/installation_gauges.py), the same by each.
"""

from __future__ import annotations

from typing import Any

from rota.metrics.instruments import Counter, Gauge, Histogram, Labels, Registry

# Seconds. A bound at 1 s, for the objective of starts; finer below it, because most starts are.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)
TENANT: Labels = ("namespace", "pool")
_NAMESPACE: Labels = ("namespace",)


class Metrics:
    """The instruments of one process, and what those who count need to know about labels."""

    def __init__(self, *, role: str = "", version: str = "", task_label: bool = False) -> None:
        """`task_label`: whether what is counted per run is also told apart by task."""
        self.registry = registry = Registry()
        self.role = role
        self.task_label = task_label
        self.pools: dict[str, list[Any]] = {}  # pools of connections by name
        of_run: Labels = (*TENANT, "task") if task_label else TENANT

        def counter(name: str, words: str, *labels: str) -> Counter:
            return registry.add(Counter(name, words, labels))

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            return registry.add(Gauge(name, words, labels))

        def histogram(name: str, words: str) -> Histogram:
            return registry.add(Histogram(name, words, of_run, BOUNDS))

        info = gauge("rota_build_info", "1 in each process, with its version and role.", "version", "role")
        info.of(version, role).value = 1
        # Counted by the process that submits: an API server, a worker for its tasks, an application on the database
        self.submitted = counter("rota_runs_submitted_total", "Jobs that were accepted.", *of_run)
        # Workers; schedulers count attempts that were lost
        self.attempts_started = counter("rota_attempts_started_total", "Attempts that started.", *of_run)
        self.attempts_ended = counter(
            "rota_attempts_ended_total", "Attempts whose end was recorded, by outcome.", *of_run, "outcome"
        )
        self.retries = counter("rota_retries_total", "Attempts after which the run will be tried again.", *of_run)
        self.buried = counter("rota_runs_buried_total", "Runs that failed for good and became dead letters.", *of_run)
        self.start_lag = histogram(
            "rota_start_lag_seconds", "Start minus nominal time, of first attempts: how late runs start."
        )
        self.queue = histogram(
            "rota_queue_seconds", "Start minus the time from which the run could start, of every attempt."
        )
        self.duration = histogram("rota_run_duration_seconds", "How long attempts ran.")
        self.fenced = counter("rota_fenced_reports_total", "Reports that came too late and changed nothing.")
        self.slots = gauge("rota_worker_slots", "Slots of the workers in this process.")
        self.slots_used = gauge("rota_worker_slots_used", "Slots that are in use.")
        # Schedulers
        self.fires = counter("rota_fire_total", "Fire times of schedules that became runs.", *_NAMESPACE)
        self.missed = counter("rota_fire_missed_total", "Fire times that were recorded as skipped.", *_NAMESPACE)
        self.shards = gauge("rota_scheduler_shards", "Shards that this scheduler owns.")
        # The installation, shown by API servers
        self.runs = gauge("rota_runs", "Runs that have not ended, by status; counted up to a limit.", *TENANT, "status")
        self.oldest_queued = registry.add(
            Gauge("rota_oldest_queued_seconds", "How long the oldest ready run has waited.", TENANT, max)
        )
        self.pool_slots = gauge("rota_pool_slots", "Slots of all workers that serve the pool.", *TENANT)
        self.pool_slots_used = gauge("rota_pool_slots_used", "Slots of the pool with a run.", *TENANT)
        self.workers = gauge("rota_workers", "Workers by state; gone ones for an hour.", "state")
        self.dead_letters = gauge("rota_dead_letters", "Dead letters that wait for a decision.", *_NAMESPACE)
        self.blocked = gauge("rota_blocked_runs", "Runs that wait at a gate, by its kind.", *_NAMESPACE, "gate")
        self.breakers = gauge("rota_breakers", "Circuit breakers by state.", *_NAMESPACE, "state")
        self.overdue = gauge("rota_schedules_overdue", "Schedules whose fire time has passed.", *_NAMESPACE)
        self.database_up = gauge("rota_database_up", "Whether the database answered the last question (API servers).")
        # Every process
        self.connections = gauge("rota_database_connections", "Connections by pool and state.", "database", "state")
        self.connection_waits = gauge(
            "rota_database_waiting", "Statements that wait for a connection of their pool.", "database"
        )
        self.cpu = counter("process_cpu_seconds_total", "CPU time of this process in seconds.")
        self.memory = gauge("process_resident_memory_bytes", "Resident memory.")
        self.virtual_memory = gauge("process_virtual_memory_bytes", "Virtual memory.")
        self.open_files = gauge("process_open_fds", "Open file descriptors.")
        self.most_files = gauge("process_max_fds", "The limit of open file descriptors.")
        self.start_time = gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")

    def run_labels(self, namespace: str, pool: str, task: str) -> Labels:
        """The labels of what is counted per run."""
        return (namespace, pool, task) if self.task_label else (namespace, pool)
