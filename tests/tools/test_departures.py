"""Errors of runs between processes, one of which leaves."""

import pytest
from amoeba import Errno, FabricError
from amoeba.core.errors import fabric_error
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba_tools.departures import departures


class Meeting:
    """A rendezvous that notices a departure when it is asked to wait for one, or never."""

    def __init__(self, gone):
        self.gone = gone
        self.waited = []

    def check(self, patience=0.0):
        self.waited.append(patience)
        if self.gone:
            raise fabric_error(Errno.FI_ECONNABORTED, "another process is gone")


def failures():
    return [fabric_error(Errno.FI_ECONNRESET, "the peer was given up"), ucs_error(UcsStatus.UCS_ERR_IO_ERROR, "lost")]


@pytest.mark.parametrize("failure", failures(), ids=["libfabric", "ucp"])
@pytest.mark.parametrize("gone", [False, True])
def test_an_operation_s_error_waits_for_the_end_of_another_process(failure, gone):
    meeting = Meeting(gone)
    with pytest.raises(Exception, match=r"gone|given up|lost") as caught, departures(meeting, 7.0):
        raise failure
    assert meeting.waited == [7.0]
    if gone:
        assert isinstance(caught.value, FabricError)
        assert caught.value.fi_errno == Errno.FI_ECONNABORTED
    else:
        assert caught.value is failure


def test_without_another_process_nothing_is_waited_for():
    failure = fabric_error(Errno.FI_ECONNRESET, "the peer was given up")
    with pytest.raises(FabricError) as caught, departures(None):
        raise failure
    assert caught.value is failure


def test_success_and_other_errors_wait_for_nobody():
    meeting = Meeting(gone=True)
    with departures(meeting):
        pass
    with pytest.raises(KeyboardInterrupt), departures(meeting):
        raise KeyboardInterrupt
    assert meeting.waited == []
