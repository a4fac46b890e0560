"""Statuses, their exceptions, and which of them an error of the engine or a return code of the NIC is."""

import copy
import pickle
import re
from pathlib import Path

import pytest
from amoeba import ucp
from amoeba.core.errno import Errno
from amoeba.core.errors import RETURN_CODE_ERRNO, fabric_error
from amoeba.openucx.ucp.status import (
    ERRNO_STATUS,
    RETURN_CODE_STATUS,
    UcsError,
    UcsStatus,
    status_of,
    status_of_completion,
    ucs_error,
    ucs_error_of,
    ucs_status_string,
)
from amoeba_model.wire.uet import ReturnCode

BORDERS = {"FIRST_LINK_FAILURE", "LAST_LINK_FAILURE", "FIRST_ENDPOINT_FAILURE", "LAST_ENDPOINT_FAILURE", "LAST"}
ERRORS = [each for each in UcsStatus if each < 0 and each.name.removeprefix("UCS_ERR_") not in BORDERS]


@pytest.mark.parametrize("status", ERRORS)
def test_every_status_has_a_class_of_its_own(status):
    error = ucs_error(status, "expected this, got that", 0x1C)
    assert type(error).status is status
    assert [each for each in type(error).__subclasses__() if each.__module__ == UcsError.__module__] == []
    assert type(error).__name__ in ucp.__all__
    assert isinstance(error, UcsError)
    assert error.prov_errno == 0x1C
    assert str(error) == f"{status.name}: expected this, got that"
    assert str(ucs_error(status)) == f"{status.name}: {ucs_status_string(status)}"


def test_no_two_classes_share_a_status():
    classes = UcsError.__subclasses__()
    assert len(classes) == len({each.status for each in classes}) == len(ERRORS)


@pytest.mark.parametrize("status", [0, 1, -40, -59, -60, -89, -100, 5, -26])
def test_what_is_no_error_has_no_class(status):
    with pytest.raises(KeyError):
        ucs_error(status)


def test_classes_are_also_what_python_calls_them():
    assert issubclass(ucp.UcsInvalidParamError, ValueError)
    assert issubclass(ucp.UcsTimedOutError, TimeoutError)
    assert issubclass(ucp.UcsEndpointTimeoutError, TimeoutError)
    assert issubclass(ucp.UcsConnectionResetError, ConnectionResetError)


@pytest.mark.parametrize("status", ERRORS)
def test_errors_survive_pickling_and_copying(status):
    error = ucs_error(status, "a failure", 7)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert other.prov_errno == 7


@pytest.mark.parametrize(
    ("status", "words"), [(0, "Success"), (-61, "Unknown error -61"), (-100, "Unknown error -100")]
)
def test_words_for_any_number(status, words):
    assert ucs_status_string(status) == words


@pytest.mark.parametrize("status", [None, "OK", 1.0])
def test_words_for_what_is_no_number_are_refused(status):
    with pytest.raises(ucp.UcsInvalidParamError, match="status: expected a status, got"):
        ucs_status_string(status)


def test_c_s_name_is_the_same():
    assert ucp.ucs_status_t is UcsStatus


# What the engine reports


@pytest.mark.parametrize("code", ReturnCode)
def test_every_return_code_has_a_status(code):
    status = RETURN_CODE_STATUS[code]
    assert status_of_completion(int(code)) is status
    assert status in ERRORS or code is ReturnCode.OK


@pytest.mark.parametrize("errno", [each for each in Errno if each])
def test_every_error_number_is_an_error(errno):
    assert ERRNO_STATUS[errno] in ERRORS
    error = ucs_error_of(fabric_error(errno, "expected this, got that"))
    assert error.status is ERRNO_STATUS[errno]
    assert error.args == ("expected this, got that",)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ReturnCode.BAD_MKEY, UcsStatus.UCS_ERR_REJECTED),
        (ReturnCode.PERM_VIOLATION, UcsStatus.UCS_ERR_REJECTED),
        (ReturnCode.AT_OUT_OF_RANGE, UcsStatus.UCS_ERR_INVALID_ADDR),
        (ReturnCode.TOO_LONG, UcsStatus.UCS_ERR_MESSAGE_TRUNCATED),
        (ReturnCode.CANCELLED, UcsStatus.UCS_ERR_CANCELED),
        (ReturnCode.UNDELIVERABLE, UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT),
        (ReturnCode.LOCAL_PDC_FAILED, UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT),
        (ReturnCode.LOCAL_PEER_PDC_TABLE_FULL, UcsStatus.UCS_ERR_NO_RESOURCE),
        (ReturnCode.BAD_GENERATION, UcsStatus.UCS_ERR_CONNECTION_RESET),
        (ReturnCode.DISABLED, UcsStatus.UCS_ERR_CONNECTION_RESET),
        (ReturnCode.AMO_UNALIGNED, UcsStatus.UCS_ERR_INVALID_PARAM),
        (ReturnCode.LOCAL_DMA_FAULT, UcsStatus.UCS_ERR_INVALID_ADDR),
    ],
)
def test_a_return_code_says_more_than_the_number_made_of_it(code, status):
    error = fabric_error(RETURN_CODE_ERRNO[code], "refused", int(code))
    assert status_of(error) is status
    assert ucs_error_of(error).prov_errno == code


def test_the_documentation_has_the_status_of_every_return_code():
    text = (Path(__file__).parents[4] / "docs" / "ucp.md").read_text()
    rows = re.findall(r"^\| ([A-Z_, ]+) \| (UCS_ERR_\w+) \|$", text, re.MULTILINE)
    documented = {code: status for codes, status in rows for code in codes.split(", ")}
    assert documented == {code.name: status.name for code, status in RETURN_CODE_STATUS.items() if status < 0}


def test_a_return_code_that_nobody_writes_is_an_io_error():
    assert status_of_completion(0xEE) is UcsStatus.UCS_ERR_IO_ERROR


def test_an_error_whose_return_code_is_no_failure_keeps_its_number():
    error = fabric_error(Errno.FI_ECANCELED, "canceled", int(ReturnCode.OK))
    assert status_of(error) is UcsStatus.UCS_ERR_CANCELED


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ucp.UcsBusyError("busy"), UcsStatus.UCS_ERR_BUSY),
        (fabric_error(Errno.FI_ENOMEM, "full"), UcsStatus.UCS_ERR_NO_MEMORY),
        (MemoryError(), UcsStatus.UCS_ERR_NO_MEMORY),
        (ZeroDivisionError(), UcsStatus.UCS_ERR_IO_ERROR),
    ],
)
def test_any_exception_has_a_status(error, status):
    assert status_of(error) is status
