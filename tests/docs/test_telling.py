"""The stories of the documents fail where a page is wrong: otherwise that they pass would say nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pytest
from shapes import difference
from stories import PageError, parts_of, read_page
from telling import StoryError, Telling

TICK = "```"


@pytest.fixture
def tell(tmp_path):
    """Tells a page with this text; gives the telling."""

    async def run(text):
        here = Path(mkdtemp(dir=tmp_path))
        (here / "page.md").write_text(text)
        (here / "page").mkdir()
        telling = Telling(read_page(here / "page.md"), here / "page", here / "behind", {})
        await telling.tell()
        return telling

    return run


def block(language, text, directive=None):
    comment = f"<!-- {directive} -->\n" if directive else ""
    return f"{comment}{TICK}{language}\n{text}\n{TICK}\n\n"


async def test_directory_and_exported_variables_carry_over_from_block_to_block(tell):
    first = block("sh", "mkdir there && cd there\nexport WHAT=this")
    await tell(
        first
        + block("sh", 'test "$(basename "$PWD") $WHAT" = "there this"')
        + block("python", "import os\nassert os.environ['WHAT'] == 'this'\nassert os.getcwd().endswith('there')")
    )


async def test_python_blocks_share_one_namespace_and_may_await(tell):
    await tell(
        block("python", "import asyncio\nnumber = 2") + block("python", "await asyncio.sleep(0)\nassert number == 2")
    )


async def test_a_file_block_is_that_file(tell):
    await tell(
        block("python", "number = 3", "file: here/numbers.py")
        + block("python", "from here.numbers import number")
        + block("sh", "grep -q 3 here/numbers.py")
    )


async def test_a_failing_command_is_found_also_before_the_last_line(tell):
    with pytest.raises(StoryError, match=r"page\.md:2: exit status 1"):
        await tell(block("sh", "false\ntrue"))


async def test_a_failing_command_in_a_pipe_is_found(tell):
    with pytest.raises(StoryError, match="exit status 1"):
        await tell(block("sh", "false | cat"))


async def test_a_command_that_should_fail_must(tell):
    await tell(block("sh", "false", "fails"))
    with pytest.raises(StoryError, match="should have failed"):
        await tell(block("sh", "true", "fails"))


async def test_a_wrong_output_block_is_found(tell):
    with pytest.raises(StoryError, match=r"-hello, world\n\+hello, moon"):
        await tell(block("sh", "echo hello, moon") + block("text", "hello, world", "output"))


async def test_the_right_output_passes_with_other_ids_and_times(tell):
    printed = "run_0123456789abcdef0123456789abcdef  success  2026-11-16T10:00:00Z  0.31 s  attempt 1"
    said = "run_fedcba9876543210fedcba9876543210 success 2027-01-01T00:00:00Z 12 ms attempt 1"
    await tell(block("sh", f"echo '{printed}'") + block("text", said, "output"))
    assert difference(said, printed.replace("attempt 1", "attempt 2"))


async def test_a_line_of_dots_stands_for_any_number_of_lines(tell):
    assert difference("first\n…\nlast", "first\nand\nso on\nlast") is None
    assert difference("first\n…\nlast", "first\nand\nso on") is not None


async def test_a_python_block_that_raises_is_found_with_its_line_in_the_page(tell):
    with pytest.raises(StoryError, match=r"page\.md\", line 3(.|\n)*ZeroDivisionError"):
        await tell(block("python", "number = 0\nprint(1 / number)"))


async def test_a_command_in_the_background_that_ends_by_itself_is_found(tell):
    with pytest.raises(StoryError, match="ended with 3"):
        await tell(
            block("sh", "exit 3", "background") + block("sh", "while ! test -e ../behind/1.ended; do sleep 0.01; done")
        )


async def test_a_server_that_does_not_start_is_found_with_what_it_says(tell):
    with pytest.raises(StoryError, match=r"rota up --app nowhere:app ended with [12](.|\n)*nowhere"):
        await tell(block("sh", "rota up --app nowhere:app"))


async def test_what_a_page_starts_is_stopped(tell):
    telling = await tell(block("sh", "sleep 600 &\necho $! > pid") + block("sh", "sleep 600", "background"))
    assert telling.left_behind() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (block("sh", "true", "backgruond"), "means nothing"),
        (block("sh", "true", "not run:"), "wants a reason"),
        (block("sh", "true", "not run"), "wants a reason"),
        (block("bash", "true"), "marked sh"),
        (block("json", "{}", "fails"), "means nothing"),
        (block("text", "hello", "output"), "no block before it"),
        (block("sh", "true").replace(TICK + "\n\n", ""), "has no end"),
        ("<!-- fails -->\n\n" + block("sh", "true"), "no block follows"),
        ("<!-- needs: a miracle -->\n", "nobody knows"),
        (block("sh", "true") + "<!-- needs: postgres -->\n", "before its first block"),
        ("<!-- a comment\nof two lines -->\n", "nobody understands"),
    ],
)
def test_a_page_that_is_no_story_is_refused(tmp_path, text, problem):
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(PageError, match=problem):
        read_page(tmp_path / "page.md")


def test_what_a_page_needs_is_read(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("<!-- needs: server tasks:app in examples/first_steps -->\n<!-- needs: postgres -->\n# Title\n")
    page = read_page(path)
    assert (page.needs_server, page.app, page.place) == (True, "tasks:app", "examples/first_steps")
    assert page.needs_postgres


def test_commands_that_go_on_are_told_apart_from_those_beside_them():
    text = "rota migrate\nrota api --host \\\n  ::1\nrota workers\nKEY=1 rota worker --app tasks:app\nrota top --once\n"
    assert [goes_on for goes_on, _ in parts_of(text)] == [False, True, False, True, False]


async def test_a_file_can_be_added_to(tell):
    added = block("python", "second = 2", "adds to: numbers_of_page.py")
    await tell(
        block("python", "first = 1", "file: numbers_of_page.py")
        + added
        + block("python", "from numbers_of_page import first, second")
    )
