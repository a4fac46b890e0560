"""libfabric's own tests, its quick list of release 1.17.0, on Amoeba's NICs."""

import pytest

from tests.support.programs.fabtests import built, read_list
from tests.support.programs.missing import MissingError
from tests.support.programs.running import run, run_pair

LISTED = read_list()
QUICK = {
    "fi_cq_data -e msg", "fi_dgram_waitset", "fi_rdm", "fi_rdm_rma_trigger", "fi_shared_ctx", "fi_rdm_tagged_peek",
    "fi_scalable_ep", "fi_cm_data",
}  # fmt: skip
"""In ``make test``; the others are in ``make test-long``."""
ON_RTL = (
    "fi_rdm_atomic -I 5 -o all", "fi_rdm_tagged_peek", "fi_cq_data -e rdm", "fi_unexpected_msg -e rdm -I 10",
    "fi_rma_bw -e rdm -o write -I 5", "fi_multi_recv -e rdm -I 5",
)  # fmt: skip


@pytest.fixture(scope="session")
def programs(headers):
    try:
        return built()
    except MissingError as missing:
        pytest.skip(str(missing))


def commands(test, programs, host):
    """Of the server, or of the only process, and of the client."""
    name, *options = test.replace("SERVER_ADDR", host).replace("GOOD_ADDR", host).split()
    common = [str(programs / name), "-p", "amoeba", *options]
    return (common, None) if name.endswith("_test") else ([*common, "-s", host], [*common, "-s", host, host])


def check(test, programs, host, environment, timeout):
    environment = {name: environment[name] for name in ("FI_PROVIDER_PATH", "FI_PROVIDER", "PYTHONPATH")} | {
        "AMOEBA_HOST": host, **{name: value for name, value in environment.items() if name == "AMOEBA_DEVICE"},
    }  # fmt: skip
    server, client = commands(test, programs, host)
    alone = client is None
    ended = (run(server, environment, timeout),) if alone else run_pair(server, client, environment, timeout)
    assert all(each.status == 0 for each in ended), "\n".join(map(str, ended))


def test_at_least_eighty_of_the_list_are_run_here():
    assert len(LISTED) == 84
    assert {test.command for test in LISTED} >= QUICK
    left_out = [test for test in LISTED if test.left_out]
    assert len(left_out) <= 4
    assert all(len(test.left_out) > 20 for test in left_out)


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(each, id=each.command, marks=() if each.command in QUICK else pytest.mark.long)
        for each in LISTED
        if not each.left_out
    ],
)
def test_fabtests(test, programs, host, provider_environment):
    check(test.command, programs, host, provider_environment, 60)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("test", ON_RTL)
def test_fabtests_on_rtl(test, programs, host, provider_environment):
    check(test, programs, host, provider_environment | {"AMOEBA_DEVICE": "rtl"}, 300)
