"""Submissions that are under way together travel together, each with its own answer."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from rota.contract.jobs import BatchJobIn, Submitted
from rota.errors import BadInputError, RotaError
from rota.gateway import coalescing
from rota.gateway.coalescing import AsyncCoalescer, Coalescer
from rota.gateway.protocol import JobTemplate, OutgoingJob
from support import eventually, in_time, wait_until

TEMPLATE = JobTemplate(BatchJobIn(name="n", schedule_type="immediate", task="t"))


def outgoing(number, size=0):
    return OutgoingJob(TEMPLATE, b'{"n": "%d%s"}' % (number, b" " * size))


def answer_to(job):
    return Submitted(job_id=job.payload.decode().replace(" ", ""), status="queued")


class Line:
    """A server that answers when it is told to: `requests` are those that are under way."""

    def __init__(self):
        self.requests = []
        self.sent = []

    async def send(self, jobs, patience):
        done = asyncio.get_running_loop().create_future()
        self.sent.append((len(jobs), patience))
        self.requests.append((jobs, done))
        return await done

    def answer(self, request=0, error=None):
        jobs, done = self.requests.pop(request)
        if error:
            error.to_repeat = list(jobs)
            done.set_exception(error)
        else:
            done.set_result([answer_to(job) for job in jobs])


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def coalescer(line):
    return AsyncCoalescer(line.send)


async def submitted(coalescer, number, patience=None, size=0):
    return await coalescer.submit(outgoing(number, size), patience)


async def start(coalescer, numbers, **options):
    tasks = [asyncio.create_task(submitted(coalescer, number, **options)) for number in numbers]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def sizes(line):
    return [size for size, _ in line.sent]


async def test_a_lone_submission_is_sent_at_once_and_in_its_own_coroutine(coalescer, line):
    before = asyncio.all_tasks()
    (task,) = await start(coalescer, [1])
    assert sizes(line) == [1]
    assert asyncio.all_tasks() - before == {task}
    line.answer()
    assert (await in_time(task)).job_id == '{"n":"1"}'


async def test_what_comes_meanwhile_goes_with_the_next_request(coalescer, line):
    tasks = await start(coalescer, range(33))
    assert sizes(line) == [1]
    line.answer()
    await eventually(lambda: sizes(line) == [1, 32])
    line.answer()
    assert [(await task).job_id for task in tasks] == [f'{{"n":"{number}"}}' for number in range(33)]


async def test_each_gets_its_own_answer_or_error(line):
    async def send(jobs, _patience):
        if len(jobs) > 1:
            return [BadInputError("even") if b"2" in job.payload else answer_to(job) for job in jobs]
        await asyncio.sleep(0)
        return [answer_to(jobs[0])]

    coalescer = AsyncCoalescer(send)
    tasks = await start(coalescer, [1, 2, 3])
    first, second, third = await in_time(asyncio.gather(*tasks))
    assert (first.job_id, third.job_id) == ('{"n":"1"}', '{"n":"3"}')
    assert isinstance(second, BadInputError)


async def test_an_error_of_the_whole_request_reaches_each_with_its_own_job(coalescer, line):
    tasks = await start(coalescer, range(4))
    line.answer()
    await eventually(lambda: len(line.sent) == 2)
    line.answer(error=RotaError("no server"))
    outcomes = await in_time(asyncio.gather(*tasks[1:], return_exceptions=True))
    assert [str(error) for error in outcomes] == ["no server"] * 3
    assert [error.to_repeat for error in outcomes] == [[outgoing(number)] for number in (1, 2, 3)]
    assert len({id(error) for error in outcomes}) == 3


async def test_an_unexpected_failure_leaves_no_coroutine_waiting(coalescer, line):
    tasks = await start(coalescer, range(3))
    line.answer()
    await eventually(lambda: len(line.sent) == 2)
    line.requests.pop()[1].set_exception(ValueError("a bug"))
    outcomes = await in_time(asyncio.gather(*tasks[1:], return_exceptions=True))
    assert [type(error) for error in outcomes] == [RotaError, RotaError]
    (task,) = await start(coalescer, [9])
    line.answer()
    assert (await in_time(task)).job_id == '{"n":"9"}'


async def test_a_job_whose_coroutine_is_cancelled_before_it_was_sent_is_not_sent(coalescer, line):
    tasks = await start(coalescer, range(3))
    tasks[1].cancel()
    await asyncio.sleep(0)
    line.answer()
    await eventually(lambda: len(line.sent) == 2)
    assert [job.payload for job in line.requests[0][0]] == [b'{"n": "2"}']
    line.answer()
    assert (await in_time(tasks[2])).job_id == '{"n":"2"}'


async def test_a_coroutine_that_is_cancelled_later_takes_no_other_with_it(coalescer, line):
    tasks = await start(coalescer, range(4))
    line.answer()
    await eventually(lambda: len(line.sent) == 2)
    tasks[2].cancel()
    await asyncio.sleep(0)
    line.answer()
    assert [(await in_time(tasks[number])).job_id for number in (1, 3)] == ['{"n":"1"}', '{"n":"3"}']


async def test_when_the_first_is_cancelled_the_others_are_sent(coalescer, line):
    tasks = await start(coalescer, range(3))
    tasks[0].cancel()
    await eventually(lambda: sizes(line) == [1, 2])
    line.answer(1)
    assert (await in_time(tasks[2])).job_id == '{"n":"2"}'


async def test_requests_are_bounded_by_jobs_and_bytes(coalescer, line, monkeypatch):
    monkeypatch.setattr(coalescing, "MOST_PER_REQUEST", 3)
    monkeypatch.setattr(coalescing, "MOST_BYTES", 2000)
    tasks = await start(coalescer, range(8))
    tasks += await start(coalescer, range(3), size=1200)
    while line.requests:
        line.answer()
        for _ in range(5):
            await asyncio.sleep(0)
    await in_time(asyncio.gather(*tasks))
    assert sizes(line) == [1, 3, 3, 2, 1, 1]


async def test_jobs_with_another_patience_travel_by_themselves(coalescer, line):
    tasks = await start(coalescer, [1, 2], patience=None)
    tasks += await start(coalescer, [3, 4], patience=9.0)
    while line.requests:
        line.answer()
        for _ in range(5):
            await asyncio.sleep(0)
    await in_time(asyncio.gather(*tasks))
    assert line.sent == [(1, None), (1, None), (2, 9.0)]


async def test_a_request_that_takes_long_holds_up_the_others_only_for_a_moment(coalescer, line):
    tasks = await start(coalescer, range(5))
    await eventually(lambda: sizes(line) == [1, 4])  # beside the first, which has no answer yet
    line.answer(1)
    assert (await in_time(tasks[4])).job_id == '{"n":"4"}'
    assert not tasks[0].done()
    line.answer()
    await in_time(tasks[0])


def in_threads(coalescer, numbers):
    answers = {}

    def submit(number):
        try:
            answers[number] = coalescer.submit(outgoing(number), None)
        except RotaError as error:
            answers[number] = error

    threads = [threading.Thread(target=submit, args=(number,), daemon=True) for number in numbers]
    for thread in threads:
        thread.start()
    return threads, answers


class Gate:
    """A server for threads: each request waits until `let` is released."""

    def __init__(self):
        self.let = threading.Semaphore(0)
        self.sent = []

    def send(self, jobs, _patience):
        self.sent.append(len(jobs))
        assert self.let.acquire(timeout=30)
        if any(b"13" in job.payload for job in jobs):
            error = RotaError("unlucky")
            error.to_repeat = list(jobs)
            raise error
        return [answer_to(job) for job in jobs]


async def test_threads_that_come_meanwhile_go_with_the_next_request(monkeypatch):
    monkeypatch.setattr(coalescing, "_PATIENT_SECONDS", 60.0)
    gate = Gate()
    coalescer = Coalescer(gate.send)
    threads, answers = in_threads(coalescer, range(1))
    await eventually(lambda: gate.sent == [1])
    more, others = in_threads(coalescer, range(1, 33))
    await eventually(lambda: len(coalescer._pending) == 32)
    gate.let.release(2)
    for thread in [*threads, *more]:
        await in_time(asyncio.to_thread(thread.join))
    assert gate.sent == [1, 32]
    assert answers[0].job_id == '{"n":"0"}'
    unlucky = [error for error in others.values() if isinstance(error, RotaError)]
    assert len(unlucky) == 32
    assert others[7].to_repeat == [outgoing(7)]


async def test_many_threads_all_get_their_answers():
    coalescer = Coalescer(lambda jobs, _patience: [answer_to(job) for job in jobs])
    wrong = []

    def work(start):
        jobs = [outgoing(number * 100 + 7) for number in range(start, start + 200)]
        wrong.extend(job for job in jobs if coalescer.submit(job, None) != answer_to(job))

    threads = [threading.Thread(target=work, args=(1000 * n,), daemon=True) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await in_time(asyncio.to_thread(thread.join))
    assert not wrong


async def test_a_thread_that_waits_for_a_slow_request_sends_beside_it():
    gate = Gate()
    coalescer = Coalescer(gate.send)
    in_threads(coalescer, [1])
    await eventually(lambda: gate.sent == [1])
    in_threads(coalescer, [2])
    await eventually(lambda: gate.sent == [1, 1])
    gate.let.release(2)


async def test_an_interrupted_thread_leaves_the_others_their_answers(monkeypatch):
    monkeypatch.setattr(coalescing, "_PATIENT_SECONDS", 60.0)
    gate = Gate()
    coalescer = Coalescer(gate.send)
    in_threads(coalescer, [1])
    await eventually(lambda: gate.sent == [1])
    threads, answers = in_threads(coalescer, [2])
    await eventually(lambda: len(coalescer._pending) == 1)
    more, others = in_threads(coalescer, [3])
    await eventually(lambda: len(coalescer._pending) == 2)
    coalescer._leave(coalescer._pending[0])  # as an interrupt does
    gate.let.release(2)
    await in_time(asyncio.to_thread(more[0].join))
    assert others[3].job_id == '{"n":"3"}'
    assert not answers
    assert gate.sent == [1, 1]
    assert threads[0].is_alive()


def test_an_interrupt_of_the_main_thread_takes_no_other_thread_with_it(monkeypatch):
    monkeypatch.setattr(coalescing, "_PATIENT_SECONDS", 60.0)
    gate = Gate()
    coalescer = Coalescer(gate.send)
    (first,), _ = in_threads(coalescer, [1])
    wait_until(lambda: gate.sent == [1])
    others = {}

    def follow():
        """Another thread comes after the main one; both go with the next request, and then the signal comes."""
        wait_until(lambda: len(coalescer._pending) == 1)
        (second,), answers = in_threads(coalescer, [3])
        wait_until(lambda: len(coalescer._pending) == 2)
        gate.let.release()
        wait_until(lambda: gate.sent == [1, 2])
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        first.join(30)
        wait_until(interrupted.is_set)
        gate.let.release()
        second.join(30)
        others.update(answers)

    interrupted = threading.Event()
    following = threading.Thread(target=follow)
    following.start()
    with pytest.raises(KeyboardInterrupt):
        coalescer.submit(outgoing(2), None)
    interrupted.set()
    following.join(60)
    assert others[3].job_id == '{"n":"3"}'


def test_what_waits_in_an_event_loop_that_was_closed_is_not_sent_by_another(line, coalescer):
    async def begin():
        made = [coalescer.submit(outgoing(number), None) for number in (1, 2)]
        for one in made:
            one.send(None)
        return made

    async def collect(first):
        first.close()  # as the garbage collector does
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    first, second = loop.run_until_complete(begin())
    loop.close()
    asyncio.run(collect(first))
    second.close()
    assert sizes(line) == [1]
