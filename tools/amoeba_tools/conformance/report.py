"""The checks as a page of Markdown: what there is, or what came out of a run."""

from collections.abc import Iterator, Sequence

from amoeba_tools.conformance.registry import NEEDS, Check, Unchecked
from amoeba_tools.conformance.runner import Report

__all__ = ["catalogue", "manual_page", "results"]


def catalogue(checks: Sequence[Check], unchecked: Sequence[Unchecked] = ()) -> str:
    """List every checked sentence by manual page, with the ids of its checks, and the reasons of unchecked ones."""
    return _text(_catalogue(checks, unchecked))


def results(report: Report, title: str) -> str:
    """Return the results of a run as Markdown: a table of pages, every failure, and the state of every sentence."""
    return _text(_results(report, title))


def manual_page(name: str) -> str:
    """Return the title of a page: libfabric's pages are of section 3; UCP's functions have no section."""
    return name if name.startswith("ucp_") else f"{name}(3)"


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


def _catalogue(checks: Sequence[Check], unchecked: Sequence[Unchecked]) -> Iterator[str]:
    pages: dict[str, list[Check]] = {}
    for check in checks:
        pages.setdefault(check.page, []).append(check)
    left = {page: [sentence for sentence in unchecked if sentence.page == page] for page in pages}
    yield from ("| page | release | sentences | checks | without |", "|---|---|---:|---:|---:|")
    for page, of_page in pages.items():
        counts = f"{_sentences(of_page)} | {len(of_page)} | {len(left[page])}"
        title = manual_page(page)
        yield f"| [{title}](#{title.replace('(', '').replace(')', '')}) | {of_page[0].version} | {counts} |"
    yield f"| all | | {_sentences(checks)} | {len(checks)} | {len(unchecked)} |"
    yield ""
    for page, of_page in pages.items():
        common = frozenset.intersection(*(check.needs for check in of_page))
        yield from (f"## {manual_page(page)}", "")
        if common:
            yield from (f"All of them need {_names(common)}.", "")
        yield from ("| section | what it says | check | needs |", "|---|---|---|---|")
        for check in of_page:
            yield _row(check.section, check.sentence, f"`{check.function.__name__}`", _names(check.needs - common))
        yield ""
        if left[page]:
            yield from ("Without a check of their own:", "", "| section | what it says | why |", "|---|---|---|")
            yield from (_row(sentence.section, sentence.sentence, sentence.reason) for sentence in left[page])
            yield ""


def _sentences(checks: Sequence[Check]) -> int:
    """How many different sentences they are about."""
    return len({(check.page, check.section, check.sentence) for check in checks})


def _names(needs: frozenset[str]) -> str:
    return ", ".join(name for name in NEEDS if name in needs)


def _results(report: Report, title: str) -> Iterator[str]:
    yield from (f"# {title}", "", f"Devices: {', '.join(report.devices)}.", "")
    yield from ("| page | checks | passed | failed | not offered |", "|---|---:|---:|---:|---:|")
    for page in report.pages:
        states = [outcome.state for outcome in report.of_page(page)]
        counts = (states.count(state) for state in ("passed", "failed", "not offered"))
        yield _row(manual_page(page), str(len(states)), *map(str, counts))
    yield ""
    for outcome in report.failures:
        yield f"- **{outcome.check.id}**: {outcome.failure}"
    if report.failures:
        yield ""
    for page in report.pages:
        yield from (f"## {manual_page(page)}", "", "| section | what it says | check | result |", "|---|---|---|---|")
        for outcome in report.of_page(page):
            check = outcome.check
            state = f"{outcome.state}: {', '.join(sorted(outcome.missing))}" if outcome.missing else outcome.state
            yield _row(check.section, check.sentence, f"`{check.function.__name__}`", state)
        yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
