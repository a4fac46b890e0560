"""Every error number has a class, and every return code of the NIC an error number.

Covers ``core/errno.py``.
"""

import errno
import os

import pytest
from amoeba.core import errors
from amoeba.core.errno import Errno
from amoeba_model.wire.uet import ReturnCode


@pytest.mark.parametrize("number", [number for number in Errno if number], ids=lambda number: number.name)
def test_every_error_number_has_a_class_of_its_own_kind(number):
    error = errors.fabric_error(number, "a failure", 5)
    assert type(error) is errors.class_of(number)
    assert type(error) is not errors.FabricError
    assert isinstance(error, OSError)
    assert (error.errno, error.fi_errno, error.prov_errno) == (number, number, 5)
    assert str(error) == f"{number.name}: a failure"


@pytest.mark.parametrize("number", [number for number in Errno if 0 < number < 256], ids=lambda number: number.name)
def test_numbers_below_256_are_those_of_linux(number):
    assert number == getattr(errno, number.name.removeprefix("FI_"))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (Errno.FI_EAGAIN, BlockingIOError),
        (Errno.FI_EACCES, PermissionError),
        (Errno.FI_ETIMEDOUT, TimeoutError),
    ],
)
def test_python_programs_can_catch_what_they_know(number, kind):
    assert issubclass(errors.class_of(number), kind)


def test_closed_is_a_state_error():
    assert errors.class_of(Errno.FI_EBADF) is errors.ClosedError
    assert issubclass(errors.ClosedError, errors.StateError)


def test_every_return_code_has_an_error_number():
    assert set(errors.RETURN_CODE_ERRNO) == set(ReturnCode)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ReturnCode.AT_PERM, errno.EACCES),
        (ReturnCode.PERM_VIOLATION, errno.EACCES),
        (ReturnCode.BAD_MKEY, 266),
        (ReturnCode.BAD_ADDR, errno.EINVAL),
        (ReturnCode.OP_VIOLATION, errno.EINVAL),
        (ReturnCode.AMO_UNSUPPORTED_OP, errno.EOPNOTSUPP),
        (ReturnCode.AMO_UNSUPPORTED_DT, errno.EOPNOTSUPP),
        (ReturnCode.TOO_LONG, 265),
        (ReturnCode.CANCELLED, errno.ECANCELED),
        (ReturnCode.OK, 0),
    ],
)
def test_return_codes_map_as_the_uet_provider_maps_them(code, number):
    assert errors.RETURN_CODE_ERRNO[code] == number


def test_every_error_number_has_words_of_its_own():
    words = [errors.strerror(number) for number in Errno]
    assert len(set(words)) == len(words)
    assert errors.strerror(-errno.ENOSPC) == os.strerror(errno.ENOSPC)
    assert errors.strerror(Errno.FI_ETRUNC) == errors.strerror(-265) == "Message truncated"
    with pytest.raises(errors.ArgumentError, match="12345 is no error number"):
        errors.strerror(12345)
