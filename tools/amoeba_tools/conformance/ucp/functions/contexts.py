"""Library and contexts: ucp_lib_query, ucp_get_version(_string), ucp_init(_version), ucp_cleanup, ucp_context_*."""

import io

import amoeba.ucp as ucp

from amoeba_tools.conformance.expectations import expect, expect_equal
from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions.common import INVALID
from amoeba_tools.conformance.ucp.pair import Pair
from amoeba_tools.conformance.ucp.registry import Function

lib_query = Function("ucp_lib_query", 1826)
get_version = Function("ucp_get_version", 1918)
get_version_string = Function("ucp_get_version_string", 1929)
init_version = Function("ucp_init_version", 1940)
init = Function("ucp_init", 1981)
cleanup = Function("ucp_cleanup", 2007)
query = Function("ucp_context_query", 2023)
print_info = Function("ucp_context_print_info", 2038)


@lib_query.says(1820, "This routine fetches information about the UCP library attributes.")
def the_librarys_thread_level_is_told(pair: Pair) -> None:
    """Expect one of C's numbers."""
    found = ucp.ucp_lib_query(ucp.ucp_lib_attr_t()).max_thread_level
    expect(found in list(ucp.ucs_thread_mode_t), f"expected a ucs_thread_mode_t, got {found!r}")


@get_version.says(1912, "This routine returns the UCP library version.")
def the_version_is_three_numbers(pair: Pair) -> None:
    """Compare with the release whose API this is."""
    expect_equal("API", ucp.ucp_get_version()[:2], (ucp.UCP_API_MAJOR, ucp.UCP_API_MINOR))


@get_version_string.says(
    1926,
    'This routine returns the UCP library version as a string which consists of: "major.minor.release".',
)
def the_string_has_the_three_numbers(pair: Pair) -> None:
    """Compare with ucp_get_version."""
    expect_equal("string", ucp.ucp_get_version_string(), "{}.{}.{}".format(*ucp.ucp_get_version()))


@init_version.says(1937, "This is an internal routine used to check compatibility with a particular API version.")
def other_versions_are_accepted(pair: Pair) -> None:
    """Accept an older version; a value that is no number is INVALID_PARAM."""
    params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_TAG)
    ucp.ucp_cleanup(ucp.ucp_init_version(1, 3, params, adapter=pair.near.adapter))
    with expect_status("no number", INVALID):
        ucp.ucp_init_version("1", 12, params, adapter=pair.near.adapter)  # type: ignore[arg-type]  # it is tried


@init.says(1950, "This routine creates and initializes a UCP application context.")
def a_context_has_its_features_alone(pair: Pair) -> None:
    """Check that a worker with tags refuses puts, and that a context without features has no worker."""
    entity = pair.entity(0, int(ucp.UCP_FEATURE_TAG))
    with expect_status("a stream", INVALID):
        ucp.ucp_stream_worker_poll(entity.worker, 1, 0)
    with expect_status("no features", INVALID):
        ucp.ucp_init(ucp.ucp_params_t(), adapter=pair.near.adapter)


@cleanup.says(
    2000,
    "The cleanup process releases and shuts down all resources associated with the application context.",
)
def what_was_made_of_a_context_is_closed(pair: Pair) -> None:
    """Use its worker afterwards, which fails; the worker is not cleaned up again."""
    entity = pair.entity(0)
    ucp.ucp_cleanup(entity.context)
    with expect_status("progress", INVALID):
        entity.progress()
    with expect_status("the second time", INVALID):
        ucp.ucp_cleanup(entity.context)


@query.says(2014, "This routine fetches information about the context.")
def a_contexts_attributes_are_told(pair: Pair) -> None:
    """Find host memory among the memory types; the mask names the filled fields."""
    found = ucp.ucp_context_query(pair.near.context, ucp.ucp_context_attr_t())
    expect((found.memory_types or 0) & 1 << ucp.UCS_MEMORY_TYPE_HOST, f"got {found.memory_types}")
    expect(found.request_size is not None, "expected a size, got none")
    asked = ucp.ucp_context_attr_t(field_mask=ucp.UCP_ATTR_FIELD_REQUEST_SIZE)
    masked = ucp.ucp_context_query(pair.near.context, asked)
    expect_equal("size alone", (masked.request_size, masked.memory_types), (found.request_size, None))


@print_info.says(
    2031,
    "This routine prints information about the context configuration: including memory domains, transport "
    "resources, and other useful information associated with the context.",
)
def a_context_is_printed(pair: Pair) -> None:
    """Print a text to the stream."""
    stream = io.StringIO()
    ucp.ucp_context_print_info(pair.near.context, stream)
    expect(stream.getvalue().strip(), "nothing was printed")
