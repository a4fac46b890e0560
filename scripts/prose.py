"""``python scripts/prose.py [PATH...]``: check that prose is plain English.

Docstrings, error messages, log lines and help texts of Python files are read, and the text of Markdown pages; of
comments only the words. Code in fenced blocks, in backticks and behind ``>>>`` is not prose. Without paths, all of
:data:`HELD` is checked. The exit status is 1 if a sentence breaks a rule.
"""

import argparse
import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["HELD", "Finding", "Passage", "check", "main", "passages"]

ROOT = Path(__file__).resolve().parents[1]
HELD = (
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "bench",
    "docs",
    "driver/amoeba/core",
    "driver/amoeba/devices",
    "driver/amoeba/embed",
    "driver/amoeba/libfabric",
    "driver/amoeba/nic",
    "driver/amoeba/openucx",
    "driver/amoeba/transport",
    "examples",
    "hw",
    "model",
    "scripts",
    "sim",
    "tests",
    "tools",
)
"""Files and folders that the lint holds to the rules."""
GENERATED = {ROOT / "docs" / name for name in ("atomic-coverage.md", "conformance.md", "testplan.md")}
"""Pages that programs write, from text that is checked at its source or not prose."""

ERRORS = ("Error", "Exit", "Failure", "Exception", "_error", "_failure")
"""Ends of the names of exceptions, and of functions that make one from a message."""
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
HELP_KEYWORDS = {"help", "epilog", "short_help", "description"}

OPENING = re.compile(
    r"""(?:\A|\n|\||(?<=[.!?])["')]*\s)          # where a sentence, or a table's cell, begins,
        [\s"'(]*(?:[-*#>]+\s+|\d+\.\s+)*         # behind marks of lists, headings and quotations
        (What(?:ever)?|Who(?:ever|se|m)?|Which|Those|That\ which)\b(?!')""",
    re.VERBOSE,
)
LOWER_OPENING = re.compile(r"\A(what(?:ever)?|who(?:ever|se|m)?|which|those|that which)\b", re.IGNORECASE)
PRONOUN = re.compile(r"\A\s*(It|They|Them)\b")
SENTENCE_END = re.compile(r"[.!?](?=[\s\"')|*_]|\Z)")

WORDS = {
    r"(?:is|are) none of": "say which values are expected",
    r"(?:is|are|was|were) nobody's": "say who acts, or that nothing owns it",
    r"there (?:is|are|was|were) none": "name what is missing",
    r"of ours": "name the owner",
    r"rooms?": "credits, free space",
    r"promis(?:es?|ed|ing)": "reserve; for documents: guarantee",
    r"g(?:ives?|ave|iven|iving) back": "release, return",
    r"openings|(?:each|every|this|one|another|its|new|old|last|first|same|next|earlier) opening": "connection epoch",
    r"incarnations?": "connection epoch",
    r"to spare": "evictable",
    r"gap slots?": "out-of-order buffer entry",
    r"given again": "replayed",
    r"under way": "outstanding, in flight",
    r"takeovers?": "software matching",
    r"(?:an?|the|its|this|of|after) silence|mourners?": "reset watchdog",
    r"caretakers?": "progress thread",
    r"(?:takes?|took|taking|in|by) turns": "fair lock, round robin",
    r"company": "deadlock check",
    r"stir(?:s|red|ring)?": "kick",
    r"stash(?:es|ed|ing)?": "bounce buffer",
    r"soil(?:s|ed|ing)?": "dirty",
    r"(?:an?|the|each|every|this|its|of|one) walks?": "address generator",
    r"hear(?:s|d|ing)? of": "is notified of",
    r"things?": "name it; for handles: handle table",
    r"MOST_\w+": "MAX_",
}
"""Patterns of home-made words, with the field's words for them."""
BANNED = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in WORDS.items()]

CODE = re.compile(
    r"""^(?P<fence>[ ]*(?:```+|~~~+)).*?^(?P=fence)[ ]*$    # fenced blocks,
      | <!--.*?-->                                          # comments,
      | ^[ ]*>>>.*?(?=\n[ ]*\n|\Z)                          # sessions up to a blank line,
      | (?<=::\n\n)[ ]+.*?(?=\n\S|\Z)                       # reStructuredText's literal blocks,
      | (?P<ticks>``?)[^`]+(?P=ticks)                       # names,
      | [\w.]+(?:,[ ][\w.]+)*(?=[ ]:[ ])                    # names of parameters and members before their types,
      | (?<=\])\([^)\s]*\)                                  # and the targets of links
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


class Passage(NamedTuple):
    """A piece of prose in a file.

    Parameters
    ----------
    kind : str
        "docstring", "comment", "message", "help" or "page".
    line : int
        Line of the file where the passage begins, from 1.
    text : str
        The prose. Expressions of f-strings are left out.
    """

    kind: str
    line: int
    text: str


class Finding(NamedTuple):
    """A sentence that breaks a rule: its line, how it begins, and the rule."""

    line: int
    opening: str
    rule: str


def check(passage: Passage) -> Iterator[Finding]:
    """Find the sentences of a passage that break a rule."""
    text = CODE.sub(_mask, passage.text)
    for match in _openings(passage.kind, text):
        if not _is_question(text, match.end()):
            yield _finding(passage, match.start(1), f"no sentence begins with {match[1].capitalize()}")
    if passage.kind == "docstring" and (match := PRONOUN.match(text)):
        yield _finding(passage, match.start(1), f"no docstring begins with {match[1]}")
    for pattern, instead in BANNED:
        for match in pattern.finditer(text):
            yield _finding(passage, match.start(), f"{match[0]!r}: {instead}")


def _openings(kind: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the banned words that open a sentence. Messages begin with a small letter. Comments may be notes."""
    if kind == "comment":
        return
    if kind == "message" and (match := LOWER_OPENING.match(text)):
        yield match
    else:
        yield from OPENING.finditer(text)


def _mask(match: re.Match[str]) -> str:
    """Replace code by as many characters that are no prose; lines stay."""
    return re.sub(r"\S", "~", match[0])


def _is_question(text: str, begin: int) -> bool:
    end = SENTENCE_END.search(text, begin)
    return end is not None and end[0] == "?"


def _finding(passage: Passage, place: int, rule: str) -> Finding:
    """Make a finding at a place of the passage, shown from the begin of its sentence or line."""
    begin = place - len(re.split(r"\n|[.!?] ", passage.text[:place])[-1])
    shown, _, _ = passage.text[begin : begin + 60].lstrip().partition("\n")
    return Finding(passage.line + passage.text.count("\n", 0, place), shown.rstrip(), rule)


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a file, a Markdown page or a Python program."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _of_program(ast.parse(text))
        yield from _comments(text)
    else:
        yield Passage("page", 1, text)


def _of_program(tree: ast.Module) -> Iterator[Passage]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lead = len(node.value.value) - len(node.value.value.lstrip("\n"))
            yield Passage("docstring", node.lineno + lead, inspect.cleandoc(node.value.value))
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _comments(text: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage("comment", token.start[0], token.string)


def _of_call(call: ast.Call) -> Iterator[Passage]:
    """Yield the texts that a call shows to its reader: messages of errors and logs, and help."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.endswith(ERRORS) or name in {"exit", "fail"} | LOG_METHODS:
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            if (text := _string(argument)) is not None:
                yield Passage("message", argument.lineno, text)
    for keyword in call.keywords:
        if keyword.arg in HELP_KEYWORDS and (text := _string(keyword.value)) is not None:
            yield Passage("help", keyword.value.lineno, inspect.cleandoc(text))


def _string(node: ast.expr) -> str | None:
    """Return the text of a string literal; of an f-string with "~" for what is computed."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_string(part) or "~" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_string(left) or "~") + (_string(right) or "~")
    return None


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the Markdown and Python files of these files and folders, but no generated ones."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in {".md", ".py"} and file not in GENERATED:
                yield file


def main() -> None:
    """Check the given files and folders, or all that are held to the rules, and print what breaks one."""
    parser = argparse.ArgumentParser(description="Check that prose is plain English.")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; without them, all that are held")
    paths = parser.parse_args().paths or [ROOT / name for name in HELD]
    broken = False
    for file in _files(path.resolve() for path in paths):
        for passage in passages(file):
            for line, opening, rule in check(passage):
                broken = True
                print(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}:{line}: {opening!r}: {rule}")
    sys.exit(broken)


if __name__ == "__main__":
    main()
