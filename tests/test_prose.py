"""The lint of prose, ``scripts/prose.py``: sentences that it refuses and accepts, and where it reads them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from prose import HELD, Passage, check, passages  # noqa: E402


def rules(text: str, kind: str = "docstring") -> list[str]:
    return [finding.rule for finding in check(Passage(kind, 1, text))]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("What a device executes it says itself.", "no sentence begins with What"),
        ("Drop the packet. What comes then is dropped.", "no sentence begins with What"),
        ("Who gets none by then is the client of a server.", "no sentence begins with Who"),
        ("Whoever waits is woken.", "no sentence begins with Whoever"),
        ("Those that nobody uses, the one unused longest first.", "no sentence begins with Those"),
        ("That which is left stays.", "no sentence begins with That which"),
        ("Whose access it is every access to the host says.", "no sentence begins with Whose"),
        ("Which openings of PDCs there were.", "no sentence begins with Which"),
        ("Whatever fits.", "no sentence begins with Whatever"),
        ("It is kept.", "no docstring begins with It"),
        ("Expect one of these; 'x' is none of them.", "'is none of': say which values are expected"),
        ("Its lock is nobody's.", "\"is nobody's\": say who acts, or that nothing owns it"),
        ("The entry, or zero if there is none.", "'there is none': name what is missing"),
        ("A type of ours.", "'of ours': name the owner"),
        ("To spare is a PDC since it was closed.", "'To spare': evictable"),
        ("Wait until there is room.", "'room': credits, free space"),
        ("Count the operations under way.", "'under way': outstanding, in flight"),
        ("Compare with MOST_ANSWERS.", "'MOST_ANSWERS': MAX_"),
    ],
)
def test_home_made_sentences_are_refused(text: str, rule: str) -> None:
    assert rule in rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "Devices report which operations they execute.",
        "A PDC is evictable once it is closed.",
        "Return the entry's context. Nothing is read then.",
        "Unread messages never block other traffic.",
        "Return what the page says, and who wrote it.",
        "Is it closed? What happens to its packets?",
        "Read ``room`` of `to spare`, of :class:`Room`.",
        "Open one.\n\n>>> room = 1\nWhat is printed",
        "Write::\n\n    What a room\n\nEnd.",
        "Add a classroom.",
        "Wait.\n\nMembers\n-------\nready, room : in\n    The buffer has space; stir : out\n",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert rules(text) == []


def test_an_opening_is_found_behind_marks_of_lists_headings_and_cells() -> None:
    page = "# What is sent\n\n1. Send it.\n2. Who waits is woken.\n\n| Those that wait | What |\n\n> What is new\n"
    assert [finding.line for finding in check(Passage("page", 1, page))] == [1, 4, 6, 6, 8]


def test_code_of_a_page_is_not_read_and_lines_behind_it_are_counted() -> None:
    page = "Run it:\n\n```console\n$ What a room\n```\n\n<!-- What -->\n\n[Start](room.md) `room`. What\nfollows.\n"
    assert [(finding.line, finding.opening) for finding in check(Passage("page", 1, page))] == [(9, "What")]


def test_comments_are_held_to_the_words_alone() -> None:
    assert rules("# What waits for room", "comment") == ["'room': credits, free space"]


def test_messages_begin_with_small_letters() -> None:
    assert rules("what is no name is refused", "message") == ["no sentence begins with What"]
    assert rules("expected a name, got what is none", "message") == []


PROGRAM = '''
"""Module."""
LIMIT = 3  # Comment.
"""Limit."""

class Sender:
    """Class."""

    def send(self, flag=Option(help="Help.")):
        """Function.

        More.
        """
        log.info("logged %s", flag)
        raise TooLongError(1, f"expected {LIMIT} bytes, " "got more")
'''


def test_docstrings_messages_and_help_of_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert sorted(passages(path)) == [
        ("comment", 3, "# Comment."),
        ("docstring", 2, "Module."),
        ("docstring", 4, "Limit."),
        ("docstring", 7, "Class."),
        ("docstring", 10, "Function.\n\nMore."),
        ("help", 9, "Help."),
        ("message", 14, "logged %s"),
        ("message", 15, "expected ~ bytes, got more"),
    ]


@pytest.mark.parametrize(("text", "status"), [("Send it.\n", 0), ("What is sent\nleaves.\n", 1)])
def test_the_exit_status_says_whether_a_rule_is_broken(tmp_path: Path, text: str, status: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    done = subprocess.run([sys.executable, ROOT / "scripts" / "prose.py", page], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")
    assert ("page.md:1: 'What is sent': no sentence begins with What" in done.stdout) is bool(status)


@pytest.mark.parametrize("name", HELD)
def test_the_table_names_paths_that_exist(name: str) -> None:
    assert (ROOT / name).exists()
