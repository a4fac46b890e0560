"""The kit itself: its registry, what it does with a pair, its reports.

Covers ``conformance/expectations.py``, ``conformance/registry.py``, ``conformance/remote.py`` and
``conformance/target.py``.
"""

import contextlib
import dataclasses
import itertools
import mmap
import re
import threading

import pytest
from amoeba import Errno, FabricError, MrAccess, Rendezvous, open_cluster
from amoeba.core.errors import fabric_error
from amoeba_tools.conformance import (
    NEEDS,
    Check,
    CheckFailedError,
    Page,
    Pair,
    TargetSide,
    Unchecked,
    catalogue,
    checks,
    expect,
    expect_equal,
    expect_error,
    open_pair,
    results,
    run,
    select,
    unchecked,
)
from amoeba_tools.conformance.remote import RemoteTarget, serve

from tests import conformance_page

NOWHERE = "telepathy"
"""Features that no pair offers."""
PAGES = {
    "fi_getinfo",
    "fi_rma",
    "fi_atomic",
    "fi_endpoint",
    "fi_cq",
    "fi_cntr",
    "fi_mr",
    "fi_av",
    "fi_eq",
    "fi_msg",
    "fi_tagged",
    "fi_trigger",
}


def check_of(function, *needs, name="fi_test"):
    """A check that is in no list."""
    return Check(name, "1.17", "SECTION", "It holds.", frozenset(needs), function)


@pytest.fixture
def pair():
    with open_pair(patience=5) as opened:
        yield opened


# The registry


def test_every_page_is_there_in_one_piece_and_every_check_once():
    pages = [page for page, _ in itertools.groupby(check.page for check in checks())]
    assert len(set(pages)) == len(pages)
    assert set(pages) >= PAGES
    ids = [check.id for check in checks()]
    assert len(set(ids)) == len(ids) >= 380


def test_every_check_says_what_it_is_about_and_how_it_finds_out():
    for check in checks():
        assert check.version == "1.17"
        assert check.section, check.id
        assert 10 <= len(check.sentence) <= 110, check.id
        assert check.function.__doc__.endswith((".", '"')), check.id
        assert check.needs <= set(NEEDS), check.id


def test_every_sentence_without_a_check_has_a_reason_that_names_checks_that_are_there():
    pages, ids = {check.page for check in checks()}, {check.id for check in checks()}
    for sentence in unchecked():
        assert sentence.page in pages
        assert sentence.section, sentence
        assert 5 <= len(sentence.sentence) <= 160, sentence
        assert len(sentence.reason) >= 12, sentence
        named = set(re.findall(r"`(fi_[a-z]+\.\w+)`", sentence.reason))
        assert named <= ids, sentence


def test_a_sentence_is_left_to_a_page():
    page = Page("fi_test", "1.17")
    page.leave("SECTION", "It may be so.", "It need not.")
    assert page.unchecked == [Unchecked("fi_test", "SECTION", "It may be so.", "It need not.")]


def test_checks_are_chosen_by_page_and_by_pattern():
    assert select("fi_rma") == tuple(check for check in checks() if check.page == "fi_rma")
    chosen = select("fi_eq.peek_*", "fi_av.more_is_a_hint", "fi_eq.peek_leaves_*")
    assert [str(check) for check in chosen] == ["fi_av.more_is_a_hint", "fi_eq.peek_leaves_the_event"]


def test_a_pattern_that_chooses_nothing_is_refused():
    with pytest.raises(ValueError, match=r"expected a page or a pattern .* got 'fi_telepathy'"):
        select("fi_rma", "fi_telepathy")


@pytest.mark.parametrize("wrong", ["needs", "twice", "docstring"])
def test_a_check_that_is_not_well_formed_is_not_registered(wrong):
    page = Page("fi_test", "1.17", needs={"rma"})

    def one(pair):
        """Does something."""

    def silent(pair):
        pass

    page("SECTION", "It holds.", needs={"atomic"})(one)
    assert page.checks == [check_of(one, "rma", "atomic")]
    with pytest.raises(ValueError, match={"needs": NOWHERE, "twice": "registered twice"}.get(wrong, wrong)):
        page("SECTION", "It holds.", needs={NOWHERE} if wrong == "needs" else ())(
            silent if wrong == "docstring" else one
        )
    assert len(page.checks) == 1


# Expectations


def test_what_is_expected_passes():
    expect(1, "never shown")
    expect_equal("number", 1, 1)
    with expect_error("call", Errno.FI_EINVAL, Errno.FI_EBUSY):
        raise_busy()
    with expect_error("call"):
        raise_busy()


def raise_busy(buffer=None):
    raise fabric_error(Errno.FI_EBUSY, "occupied")


def test_what_is_not_expected_is_shown():
    with pytest.raises(CheckFailedError, match=r"^said so$"):
        expect(0, "said so")
    with pytest.raises(CheckFailedError, match=r"^number: expected 2, got 1$"):
        expect_equal("number", 1, 2)
    with pytest.raises(CheckFailedError, match=r"got 3 bytes 010203, first at byte 2$"):
        expect_equal("memory", b"\1\2\3", b"\1\2\4")
    with pytest.raises(CheckFailedError, match=r"got 1 bytes 01$"):
        expect_equal("memory", b"\1", b"\1\2")
    with (
        pytest.raises(CheckFailedError, match=r"^call: expected FI_EINVAL, got FI_EBUSY: occupied$"),
        expect_error("call", Errno.FI_EINVAL),
    ):
        raise_busy()
    with (
        pytest.raises(CheckFailedError, match=r"^call: expected FI_EINVAL or FI_EBUSY, but it succeeded$"),
        expect_error("call", Errno.FI_EINVAL, Errno.FI_EBUSY),
    ):
        pass


def test_an_expected_failure_is_gone_after_its_block():
    """Its frames hold views of buffers, which their owners want to close."""
    with mmap.mmap(-1, mmap.PAGESIZE) as memory, expect_error("call"):
        raise_busy(memoryview(memory))
    assert memory.closed
    with mmap.mmap(-1, mmap.PAGESIZE) as memory, expect_error("call", Errno.FI_EBUSY):
        raise_busy(memoryview(memory))
    assert memory.closed


# Pairs


def test_what_a_check_opens_is_closed_afterwards(pair):
    opened = []

    def opens(pair):
        near, memory = pair.open(), pair.memory(8)
        region = pair.local(bytearray(8), MrAccess.FI_WRITE)
        opened.extend((near.endpoint, near.queue, region, pair.other_domain(pair.domain.mr_mode)))
        near.endpoint.write(b"abc", *memory.at())
        near.finish()

    check_of(opens).run(pair)
    assert [thing.closed for thing in opened] == [True] * 4
    assert not pair.domain.closed
    assert len(pair.peers) == 1


def test_what_a_failing_check_opens_is_closed_too(pair):
    opened = []

    def fails(pair):
        opened.append(pair.open().endpoint)
        pair.memory(8, domain=1)
        expect(False, "as it must")

    with pytest.raises(CheckFailedError, match="as it must"):
        check_of(fails).run(pair)
    assert opened[0].closed
    assert len(pair.peers) == 1


@pytest.mark.parametrize("where", ["initiator", "initiator's error", "target"])
def test_a_check_that_leaves_something_in_a_queue_fails(pair, where):
    def leaves(pair):
        memory = pair.memory(8)
        if where == "target":
            pair.near.endpoint.writedata(b"abc", 5, *memory.at())
            pair.near.finish()
        else:
            key = memory.key ^ (where != "initiator")
            pair.near.endpoint.write(b"abc", memory.peer, memory.address, key)

    with pytest.raises(CheckFailedError, match=r"^entries|^expected a success"):
        check_of(leaves).run(pair)


def test_an_initiator_tells_success_from_failure(pair):
    memory = pair.memory(8)
    with pytest.raises(CheckFailedError, match=r"expected 1 entries in 0\.01 s, got 0"):
        dataclasses.replace(pair.near, patience=0.01).finish()
    pair.near.endpoint.write(b"abc", memory.peer, memory.address, memory.key ^ 1)
    with pytest.raises(CheckFailedError, match=r"expected a success, got CqErrEntry"):
        pair.near.finish()
    pair.near.endpoint.write(b"abc", *memory.at())
    with pytest.raises(CheckFailedError, match=r"expected an operation to fail, got \[CqDataEntry"):
        pair.near.failure()
    pair.near.endpoint.write(b"abc", memory.peer, memory.address, memory.key ^ 1)
    with pytest.raises(CheckFailedError, match=r"to fail with FI_EBUSY, got CqErrEntry"):
        pair.near.failure(Errno.FI_EBUSY)


def test_messages_come_from_the_target_and_go_to_it(pair):
    seen = []

    def talks(pair):
        near, buffer = pair.talker(), bytearray(8)
        near.endpoint.trecv(buffer, 7, context="mine")
        near.get(b"message", tag=7, data=3)
        entry = near.finish()
        seen.append((entry.op_context, entry.tag, entry.data, bytes(buffer)))
        receive = pair.receive(b"........", 5, 1, 3, 5)
        near.endpoint.tsend(b"answer", pair.peer, 4)
        near.finish()
        heard = receive.finish()
        seen.append((heard.tag, heard.len, heard.source, receive.load()))

    for _ in range(5):  # more endpoints than there are contexts, unless each is closed
        check_of(talks).run(pair)
    assert set(seen) == {("mine", 7, 3, b"message\0"), (4, 6, 1, b"answer..")}
    assert len(pair.peers) == 1


def test_what_is_not_received_is_told(pair):
    near = pair.talker()
    receive = pair.receive(2)
    near.endpoint.send(b"four", pair.peer)
    with pytest.raises(CheckFailedError, match=rf"receive {receive.handle} to end, got .*err={int(Errno.FI_ETRUNC)}"):
        receive.finish()
    near.finish()
    pair.receive(4)
    other = pair.receive(4)
    near.endpoint.send(b"four", pair.peer)
    with pytest.raises(CheckFailedError, match=f"receive {other.handle} to end, got .*handle={other.handle - 1}"):
        other.finish()
    near.finish()
    impatient = dataclasses.replace(near, patience=0.01)
    with pytest.raises(CheckFailedError, match="messages sent by the target: expected"):
        impatient.get(bytes(10_000))


def test_parts_of_a_check_close_what_they_opened(pair):
    with pair.check():
        outer = pair.open()
        for _ in range(5):
            with pair.part():
                inner = pair.open()
            assert inner.endpoint.closed
            assert inner.queue.closed
        assert not outer.endpoint.closed
    assert outer.endpoint.closed


def test_endpoints_of_ones_own_are_introduced_for_one_check(pair):
    with pair.check():
        near = pair.talker()
        number = pair.introduce(near.endpoint)
        near.endpoint.recv(bytearray(4), context="from here")
        pair.near.endpoint.send(b"self", number)
        assert near.finish().op_context == "from here"
        pair.near.finish()
        assert len(pair.peers) == 2
    assert len(pair.peers) == 1


def test_cut_links_are_restored_and_patience_too(pair):
    usual = pair.fabric.nics[0].retransmission
    with contextlib.suppress(KeyboardInterrupt), pair.cut():
        assert pair.fabric.nics[0].retransmission != usual
        raise KeyboardInterrupt
    assert pair.fabric.nics[0].retransmission == usual
    pair.probe()


def test_a_pair_is_an_initiator_and_a_target():
    with pytest.raises(FabricError, match="FI_EINVAL: a pair is"), open_pair(["model"] * 3):
        pass


def test_a_pair_may_be_made_of_nics_that_are_open():
    with open_cluster(["model"] * 3) as fabric:
        pair = Pair(fabric, TargetSide(fabric, 0), nic=2, patience=5)
        assert run(pair, select("fi_rma", "fi_mr")).passed


# Targets elsewhere


@pytest.fixture
def elsewhere():
    """A target that is served by another thread, through a rendezvous."""
    ready = threading.Event()
    address = []

    def listening(*where):
        address.extend(where)
        ready.set()

    def serving():
        ready.wait()
        with Rendezvous.connect(*address) as rendezvous, open_cluster(["model"]) as fabric:
            side = TargetSide(fabric, 0)
            serve(side, rendezvous)

    server = threading.Thread(target=serving)
    server.start()
    with Rendezvous.listen("127.0.0.1", 0, 2, ready=listening) as rendezvous, open_cluster(["model"]) as fabric:
        target = RemoteTarget(fabric, rendezvous)
        yield target
        target.dismiss()
    server.join()


def test_calls_of_a_target_elsewhere_bring_back_what_it_answers(elsewhere):
    assert len(elsewhere.name(0)) == len(elsewhere.name(1)) == 18
    number = elsewhere.meet(elsewhere.name(1))
    elsewhere.part(number)
    assert elsewhere.meet(elsewhere.name(0)) == number
    handle = elsewhere.receive(b"......", [2, 4], 7, 1)
    elsewhere.send(number, b"self", 6, 99)
    received, sent = sorted(elsewhere.hear(2, 30.0), key=lambda entry: entry.anonymous)
    assert (received.handle, received.len, received.tag, received.data) == (handle, 4, 6, 99)
    assert (sent.anonymous, sent.handle, sent.len, sent.err) == (True, -1, 4, 0)
    assert elsewhere.load(handle, 0, 6) == b"self.."
    exposed = elsewhere.expose(b"abcdef", int(MrAccess.FI_REMOTE_READ), 77, 1)
    assert (exposed.address, exposed.key) == (0, 77)
    elsewhere.store(exposed.handle, 2, b"CD")
    assert elsewhere.load(exposed.handle, 1, 4) == b"bCDe"
    elsewhere.withdraw(exposed.handle)
    assert elsewhere.load(exposed.handle, 0, 6) == b"abCDef"
    assert elsewhere.hear(3, 0.0) == []
    elsewhere.forget()


def test_errors_of_a_target_elsewhere_are_raised_here(elsewhere):
    elsewhere.expose(b"abc", int(MrAccess.FI_REMOTE_READ), 77, 0)
    with pytest.raises(FabricError, match=r"^FI_ENOKEY: key 0x4d is in use"):
        elsewhere.expose(b"abc", int(MrAccess.FI_REMOTE_READ), 77, 0)
    elsewhere.forget()
    elsewhere.expose(b"abc", int(MrAccess.FI_REMOTE_READ), 77, 0)


# Runs and reports


def passes(pair):
    pair.memory(8)


def fails(pair):
    expect(False, "broken | in two")


def crashes(pair):
    raise ZeroDivisionError("of the check's own")


def test_a_run_tells_what_passed_what_failed_and_what_was_not_tried():
    told = []
    chosen = [check_of(passes), check_of(fails), check_of(crashes, name="fi_two"), check_of(passes, NOWHERE)]
    report = run(open_pair, chosen, progress=told.append)
    assert [outcome.state for outcome in report.outcomes] == ["passed", "failed", "failed", "not offered"]
    assert tuple(told) == report.outcomes
    assert not report.passed
    failures = [outcome.failure for outcome in report.failures]
    assert failures == ["CheckFailedError: broken | in two", "ZeroDivisionError: of the check's own"]
    assert report.pages == ("fi_test", "fi_two")
    assert report.of_page("fi_two") == report.outcomes[2:3]
    assert len(report.devices) == 2


def test_a_run_in_which_nothing_was_tried_has_not_passed(pair):
    assert not run(pair, [check_of(passes, NOWHERE)]).passed
    assert not run(pair, []).passed
    assert run(pair, [check_of(passes), check_of(passes, NOWHERE)]).passed


def test_a_fixture_is_opened_again_after_a_failure_and_a_pair_is_not(pair):
    seen = []

    def notes(pair):
        seen.append(pair)

    chosen = [check_of(notes), check_of(notes), check_of(fails), check_of(notes)]
    run(open_pair, chosen)
    assert seen[0] is seen[1] is not seen[2]
    seen.clear()
    run(pair, chosen)
    assert seen == [pair] * 3


def test_results_list_failures_and_every_sentence():
    text = results(run(open_pair, [check_of(passes), check_of(fails), check_of(passes, NOWHERE)]), "Title")
    assert text.startswith("# Title\n")
    assert "| fi_test(3) | 3 | 1 | 1 | 1 |" in text
    assert "- **fi_test.fails**: CheckFailedError: broken | in two" in text
    assert "| SECTION | It holds. | `fails` | failed |" in text
    assert "| SECTION | It holds. | `passes` | not offered: telepathy |" in text


def test_the_catalogue_counts_sentences_and_checks():
    text = catalogue([check_of(passes, "rma"), check_of(fails, "rma", "cut")])
    assert "| [fi_test(3)](#fi_test3) | 1.17 | 1 | 2 | 0 |" in text
    assert "Without a check" not in text
    assert "All of them need rma." in text
    assert "| SECTION | It holds. | `fails` | cut |" in text


def test_the_catalogue_lists_sentences_without_a_check_by_page():
    left = [Unchecked("fi_test", "SECTION", "This | that.", "It may."), Unchecked("fi_two", "NOTES", "Or so.", "No.")]
    text = catalogue([check_of(passes), check_of(passes, name="fi_two")], left)
    assert "| [fi_test(3)](#fi_test3) | 1.17 | 1 | 1 | 1 |" in text
    assert "| all | | 2 | 2 | 2 |" in text
    first, second = text.split("## fi_two(3)")
    assert "| SECTION | This \\| that. | It may. |" in first
    assert "| NOTES | Or so. | No. |" in second


# The page


def test_the_page_is_fresh():
    assert conformance_page.PAGE.read_text(encoding="utf-8") == conformance_page.page(), "run make generated"


def test_check_fails_on_a_stale_page_and_writing_repairs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(conformance_page, "PAGE", tmp_path / "conformance.md")
    assert conformance_page.main(["--check"]) == 1
    assert "is stale" in capsys.readouterr().err
    assert conformance_page.main([]) == 0
    assert conformance_page.main(["--check"]) == 0
