"""Configuration: ucp_config_read, _release, _modify, _print."""

import io

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

read = Function("ucp_config_read", 1855)
release = Function("ucp_config_release", 1869)
modify = Function("ucp_config_modify", 1885)
print_config = Function("ucp_config_print", 1904)


def line(config: ucp.ucp_config_t, name: str) -> str:
    """Return the printed line of a key."""
    stream = io.StringIO()
    ucp.ucp_config_print(config, stream, None, int(ucp.UCS_CONFIG_PRINT_CONFIG))
    return next(each for each in stream.getvalue().splitlines() if each.startswith(f"UCX_{name}="))


@read.says(1847, "If the file does not exist, it will be ignored and no error reported to the application.")
def a_file_that_is_not_there_is_no_error(pair: Pair) -> None:
    """Compare with the configuration that is read without a file."""
    with_file, without = ucp.ucp_config_read(None, "/nonexistent/ucx.conf"), ucp.ucp_config_read(None, None)
    expect_equal("a key", line(with_file, "RNDV_THRESH"), line(without, "RNDV_THRESH"))


@release.says(
    1863,
    "The routine releases the configuration descriptor that was allocated through ucp_config_read() routine.",
)
def a_released_configuration_cannot_be_used(pair: Pair) -> None:
    """Release it again, too, which fails."""
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_release(config)
    with expect_status("changing it", INVALID):
        ucp.ucp_config_modify(config, "RNDV_THRESH", "1k")
    with expect_status("the second time", INVALID):
        ucp.ucp_config_release(config)


@modify.says(1876, "The routine changes one configuration setting stored in configuration descriptor.")
def one_key_is_changed(pair: Pair) -> None:
    """Change one configuration; an unknown key and an invalid value are errors."""
    config, other = ucp.ucp_config_read(None, None), ucp.ucp_config_read(None, None)
    before = line(other, "RNDV_THRESH")
    ucp.ucp_config_modify(config, "RNDV_THRESH", "12k")
    expect_equal("this one", line(config, "RNDV_THRESH"), "UCX_RNDV_THRESH=12k")
    expect_equal("another", line(other, "RNDV_THRESH"), before)
    with expect_status("an unknown key", ucp.UcsStatus.UCS_ERR_NO_ELEM):
        ucp.ucp_config_modify(config, "NO_SUCH_KEY", "1")
    with expect_status("a value", INVALID):
        ucp.ucp_config_modify(config, "RNDV_THRESH", "much")


@print_config.says(
    1893,
    "The routine prints the configuration information that is stored in configuration descriptor.",
)
def title_and_keys_are_printed(pair: Pair) -> None:
    """Print the parts that the flags choose."""
    stream = io.StringIO()
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_print(config, stream, "The title", int(ucp.UCS_CONFIG_PRINT_HEADER))
    expect_equal("title, keys", ("The title" in stream.getvalue(), "UCX_" in stream.getvalue()), (True, False))
