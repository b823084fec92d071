"""Searches logs: finds the lines that contain a text, page by page, from the latest run back.

Logs in object storage are found by their blocks (domain/log_index.py); what is not there yet is read from the database.
Both are merged in one order: runs from the latest to the earliest, attempts from the last to the first, lines as they
were written. A place in that order is (run, claim, line); it stays valid while logs move to object storage. The index
only says where to look: every line is compared with the text.

A search takes `_SEARCH_SECONDS` at most; then it answers with what it has and the place where the next page continues.
A caller who sees the runs of one owner only is served from this owner's blocks and logs alone: neither the time it
takes nor the place tells anything of others.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from rota.blobs import BlobMissingError, Blobs
from rota.contract.runs import LogMatch
from rota.domain.ids import FIRST_ID, show_run
from rota.domain.log_index import Member, fold, is_shared, own_key, searched_entries
from rota.service import Breather
from rota.store.logs.blocks import FoundBlock, LogBlocks, LogFilter, LogKey

MOST_CONTEXT = 20
_SEARCH_SECONDS = 2.0
_FRESH_PER_ROUND = 500
_FRESH_PER_READ = 10
_FIRST_BLOCKS, _MOST_BLOCKS = 2, 16
_READS_AT_ONCE = 8
_MOST_HIGHLIGHTS = 100
MOST_CLAIM = 2**63 - 1


class LogPlace(NamedTuple):
    """Where a search goes on: with this line of this attempt, then with attempts before it."""

    run_id: UUID
    claim: int
    line: int

    @classmethod
    def below(cls, run_id: UUID) -> LogPlace:
        """From the last attempt of the run before this one on."""
        return cls(UUID(int=run_id.int - 1) if run_id.int else FIRST_ID, MOST_CLAIM, 0)

    @property
    def key(self) -> LogKey:
        return self.run_id, self.claim


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is searched for: a text in the logs of some runs, from the run `first` on."""

    namespace: str
    text: str
    first: UUID
    runs: LogFilter = field(default_factory=LogFilter)
    stream: str | None = None
    level: str | None = None
    context: int = 0


class FoundLog(NamedTuple):
    """A log that has the text somewhere."""

    key: LogKey
    attempt: int
    body: str


class LogSearch:
    """Answers questions about logs."""

    def __init__(self, blocks: LogBlocks, blobs: Blobs) -> None:
        self._blocks = blocks
        self._blobs = blobs

    async def page(self, question: Question, place: LogPlace, limit: int) -> tuple[list[LogMatch], LogPlace | None]:
        """At most `limit` lines from a place on, and where the next page begins (None: this was the last)."""
        search = _Search(self._blocks, self._blobs, question)
        found: list[LogMatch] = []
        many = _FIRST_BLOCKS
        deadline = time.monotonic() + _SEARCH_SECONDS
        while place.run_id >= question.first:
            # What is copied between the two looks is in both.
            fresh, floor = await search.fresh(place, many)
            blocks, stopped = await search.blocks(place, many)
            floor = max(floor or FIRST_ID, stopped or FIRST_ID)
            if floor > FIRST_ID and place.run_id <= floor:
                many *= 4  # so much overlaps here that this is no progress
                continue
            async for log in search.logs(fresh, blocks, place, floor):
                for line, match in search.lines(log, place):
                    if len(found) == limit:
                        return found, LogPlace(*log.key, line)
                    found.append(match)
                place = LogPlace(log.key[0], log.key[1] - 1, 0)
                if time.monotonic() > deadline:
                    return found, place
            if floor == FIRST_ID:
                return found, None
            place = LogPlace(floor, MOST_CLAIM, 0)
            if time.monotonic() > deadline:
                return found, place
            many = min(2 * many, max(many, _MOST_BLOCKS))
        return found, None


class _Search:
    """One page of a search."""

    def __init__(self, blocks: LogBlocks, blobs: Blobs, question: Question) -> None:
        self._blocks = blocks
        self._blobs = blobs
        self._question = question
        self._text = fold(question.text)
        self._entries = searched_entries(question.text, question.runs.labels)
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)
        self._breather = Breather()

    async def fresh(self, place: LogPlace, many: int) -> tuple[list[LogKey], UUID | None]:
        limit = _FRESH_PER_ROUND * max(1, many // _MOST_BLOCKS)
        q = self._question
        return await self._blocks.fresh(q.namespace, q.runs.owner, q.first, place.run_id, limit)

    async def blocks(self, place: LogPlace, many: int) -> tuple[list[FoundBlock], UUID | None]:
        q = self._question
        return await self._blocks.find(q.namespace, q.runs.owner, q.first, place.run_id, self._entries, many)

    async def logs(
        self, fresh: Sequence[LogKey], blocks: Sequence[FoundBlock], place: LogPlace, floor: UUID
    ) -> AsyncIterator[FoundLog]:
        """The logs with the text above a run, from a place on, in order."""

        def is_wanted(key: LogKey) -> bool:
            return max(floor, _before(self._question.first)) < key[0] and key <= place.key

        read = await asyncio.gather(*(self._read(block, is_wanted) for block in blocks))
        found = {log.key: log for some in read for log in some}
        keys = sorted({*found, *filter(is_wanted, fresh)}, reverse=True)
        for first in range(0, len(keys), _FRESH_PER_READ):
            portion = keys[first : first + _FRESH_PER_READ]
            wanted = [key for key in portion if key not in found]
            some = {key: found.pop(key) for key in portion if key in found}
            for row in await self._blocks.texts(self._question.namespace, wanted, self._text):
                key = row["run_id"], row["claim"]
                some[key] = FoundLog(key, row["attempt"], row["body"])
            allowed = await self._allowed({key[0] for key in some})
            for key in portion:
                if key in some and key[0] in allowed:
                    yield some[key]
                    await self._breather.breathe()

    async def _allowed(self, run_ids: set[UUID]) -> set[UUID]:
        """Of these runs those that the filter lets through. Whose they are is known from where they were found."""
        if not self._question.runs.labels:
            return run_ids
        return await self._blocks.matching(self._question.namespace, sorted(run_ids), self._question.runs)

    async def _read(self, block: FoundBlock, is_wanted: Callable[[LogKey], bool]) -> list[FoundLog]:
        wanted = [member for member in block.members if is_wanted((member.run_id, member.claim))]
        if not wanted:
            return []
        if not is_shared(block.blob):
            read = await asyncio.gather(*(self._read_own(member) for member in wanted))
            return [log for log in read if log]
        whole = await self._piece(block.blob, block.first, block.length)
        await self._breather.breathe()
        if self._text not in fold(whole.decode("utf-8", "replace")):
            return []
        return [
            log
            for member in wanted
            if (log := self._log_of(member, whole[member.first : member.first + member.length]))
        ]

    async def _read_own(self, member: Member) -> FoundLog | None:
        key = own_key(self._question.namespace, member.run_id, member.claim)
        return self._log_of(member, await self._piece(key, 0, member.length))

    async def _piece(self, key: str, first: int, length: int) -> bytes:
        async with self._reads:
            try:
                return await self._blobs.get_piece(key, first, length)
            except BlobMissingError:
                return b""  # its retention has ended

    def _log_of(self, member: Member, piece: bytes) -> FoundLog | None:
        body = piece.decode("utf-8", "replace")
        return FoundLog((member.run_id, member.claim), member.attempt, body) if self._text in fold(body) else None

    def lines(self, log: FoundLog, place: LogPlace) -> Iterator[tuple[int, LogMatch]]:
        """Its lines with the text, by their numbers."""
        begin = place.line if log.key == place.key else 0
        context = self._question.context
        lines = log.body.removesuffix("\n").split("\n")
        for number, line in enumerate(lines):
            if number < begin or self._text not in fold(line):
                continue
            moment, stream, text = split_line(line)
            if not self._is_asked_for(stream, text) or not (highlights := find_all(text, self._text)):
                continue
            yield (
                number,
                LogMatch(
                    run_id=show_run(log.key[0]),
                    attempt=log.attempt,
                    time=moment,
                    stream=stream,
                    text=text,
                    line=number + 1,
                    highlights=highlights,
                    before=[split_line(one)[2] for one in lines[max(0, number - context) : number]],
                    after=[split_line(one)[2] for one in lines[number + 1 : number + 1 + context]],
                ),
            )

    def _is_asked_for(self, stream: str, text: str) -> bool:
        q = self._question
        return (q.stream is None or stream == q.stream) and (q.level is None or level_of(stream, text) == q.level)


def split_line(line: str) -> tuple[str, str, str]:
    """Time, stream and text of a stored line."""
    moment, _, rest = line.partition(" ")
    stream, _, text = rest.partition(" ")
    return moment, stream, text


def level_of(stream: str, text: str) -> str | None:
    """The level of a logged line, which is its first word; None for other output."""
    return text.partition(" ")[0].lower() if stream == "log" else None


def find_all(text: str, wanted: str) -> list[list[int]]:
    """Where a text contains another whose case was taken away: begin and end of each place, in characters."""
    folded = fold(text)
    if len(folded) == len(text):
        found = [match.span() for match in re.finditer(re.escape(wanted), folded)]
    else:
        # Some characters are folded to several ('ß' to 'ss'): back to those that they come from.
        origins = [at for at, character in enumerate(text) for _ in fold(character)]
        spans = [match.span() for match in re.finditer(re.escape(wanted), folded)]
        found = [(origins[begin], origins[end - 1] + 1) for begin, end in spans]
    return [list(span) for span in found[:_MOST_HIGHLIGHTS]]


def _before(run_id: UUID) -> UUID:
    return UUID(int=max(0, run_id.int - 1))
