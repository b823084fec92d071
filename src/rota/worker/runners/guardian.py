"""The guardian of one subprocess: leaves no process of the run behind, even if the worker dies.

Run by path as a separate program that imports only the standard library:

    guardian.py CONTROL STATUS KEEP MEMORY UNTIL COMMAND…

CONTROL is a pipe the worker writes to. `until T` extends the deadline at which everything is killed (on the clock of
`rota.clock.uptime`, which worker and guardian share); `term` asks the command to end, `kill` kills everything, `sweep`
kills everything but the command itself. A worker that dies closes the pipe, and one that is paused misses the deadline:
both mean `kill`. STATUS is a pipe the guardian writes to: `pid N`, then `swept` for every sweep, then `exit CODE` when
the command and everything it started have ended (negative: by a signal). KEEP lists extra file descriptors for the
command ("" for none), MEMORY limits its data in bytes (0: no limit), UNTIL is the first deadline.

The command gets its own session. On Linux the guardian is a subreaper: orphans of the command become its children, even
those that made a session of their own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator

LINUX = sys.platform == "linux"
SWEEP_PAUSE_SECONDS = 0.01
GIVE_UP_SECONDS = 5.0
EMPTY_LOOKS = 2
LONGEST_WAIT_SECONDS = 1.0  # a wait does not count the time that the machine is suspended, the deadline does
FAILED_TO_START = 127
_MEANT_FOR_THE_COMMAND = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    control, status = int(arguments[0]), int(arguments[1])
    keep = [int(number) for number in arguments[2].split(",") if number]
    for number in (control, status):
        os.set_inheritable(number, False)
    # Blocked, not ignored: a signal sent before the command is ready is delivered as soon as it is.
    signal.pthread_sigmask(signal.SIG_BLOCK, _MEANT_FOR_THE_COMMAND)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakened = _wakened_by_children()
    command = _start(arguments[5:], keep, int(arguments[3]), status)
    # Only the command may hold these: their other ends must notice when it ends.
    for number in (0, 1, 2, *keep):
        os.close(number)
    _say(status, f"pid {command}")
    _watch(command, control, status, wakened, float(arguments[4]))
    _say(status, f"exit {_kill_all(command)}")
    return 0


def _start(command: list[str], keep: list[int], memory: int, status: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for name in (*_MEANT_FOR_THE_COMMAND, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _MEANT_FOR_THE_COMMAND)
        if memory:
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        for number in keep:
            os.set_inheritable(number, True)
        os.execvp(command[0], command)  # noqa: S606 - what the runner chose
    except OSError as error:
        _say(status, f"errno {error.errno}")
        _say(status, f"failed {error.strerror}")
    finally:
        os._exit(FAILED_TO_START)


def _watch(command: int, control: int, status: int, wakened: int, until: float) -> None:
    """Waits until the command has ended, or must be killed."""
    poll = select.poll()
    for number in (control, wakened):
        poll.register(number, select.POLLIN | select.POLLHUP)
    heard = b""
    while not _has_ended(command) and (left := until - _uptime()) > 0:
        ready = [number for number, _ in poll.poll(min(left, LONGEST_WAIT_SECONDS) * 1000)]
        if wakened in ready:
            os.read(wakened, 4096)
            _take_in_orphans(command)
        if control in ready:
            data = os.read(control, 4096)
            *lines, heard = (heard + data).split(b"\n")
            for line in lines:
                word, _, value = line.decode().partition(" ")
                if word == "kill":
                    return
                if word == "until":
                    until = float(value)
                else:
                    _obey(word, command, status)
            if not data:
                return


def _uptime() -> float:
    """The same as `rota.clock.uptime`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if LINUX else time.monotonic()


def _obey(word: str, command: int, status: int) -> None:
    if word == "term":
        _signal_group(command, signal.SIGTERM)
    elif word == "sweep":
        _kill_others(command)
        _say(status, "swept")


def _wakened_by_children() -> int:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    os.set_blocking(reads, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    return reads


def _has_ended(command: int) -> bool:
    """Looks without reaping: until then the system can't reuse the pid."""
    return os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_all(command: int) -> int:
    """Kills the command and everything it started; returns the command's exit code.

    All of these descend from us, so this is done when we have no children. One look that finds nothing is not enough: a
    process can fork and end between looks.
    """
    code: int | None = None
    while True:
        if code is None:
            _signal_group(command, signal.SIGKILL)
        for pid, running in list(_descendants()):
            if running:
                _signal(pid, signal.SIGKILL)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == command:
                    code = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return -signal.SIGKILL if code is None else code
        time.sleep(SWEEP_PAUSE_SECONDS)


def _kill_others(command: int) -> None:
    """Kills what the command started and left running, but not the command."""
    empty_looks = 0
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while empty_looks < EMPTY_LOOKS and time.monotonic() < deadline:
        others = [pid for pid, running in _descendants() if running and pid != command]
        for pid in others:
            _signal(pid, signal.SIGKILL)
        _take_in_orphans(command)
        empty_looks = 0 if others or _children() - {command} else empty_looks + 1
        if others:
            time.sleep(SWEEP_PAUSE_SECONDS)


def _children() -> set[int]:
    """Our own children, if the system lists them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            return {int(pid) for pid in file.read().split()}
    except OSError:
        return set()


def _take_in_orphans(command: int) -> None:
    """Reaps orphans that have ended, so that they don't stay as zombies."""
    for pid, running in _descendants():
        if not running and pid != command:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # not our child


def _descendants() -> Iterator[tuple[int, bool]]:
    """All our descendants, and whether each still runs. Linux only."""
    if not LINUX:
        return
    children: dict[int, list[tuple[int, bool]]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes long to import
        if name.isdigit() and (seen := _look_at(name)):
            parent, running = seen
            children.setdefault(parent, []).append((int(name), running))
    found = [os.getpid()]
    while found:
        for pid, running in children.get(found.pop(), ()):
            found.append(pid)
            yield pid, running


def _look_at(pid: str) -> tuple[int, bool] | None:
    """A process's parent and whether it runs; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            state, parent = file.read().rsplit(b")", 1)[1].split()[:2]
    except OSError:
        return None
    return int(parent), state != b"Z"


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        _signal(leader, number)  # it may not have its own group yet


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _say(status: int, words: str) -> None:
    try:
        os.write(status, words.encode() + b"\n")
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
