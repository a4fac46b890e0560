"""fi_info and fi_pingpong, as Debian packages them."""

import pytest

from tests.support.programs.running import run, run_pair


def test_fi_info_lists_the_provider_as_others(provider_environment, needs_program):
    fi_info = needs_program("fi_info", "libfabric-bin")
    answered = run([fi_info], provider_environment)
    assert answered.status == 0, answered
    assert answered.output.count("provider: amoeba\n") == 3
    for kind in ("FI_EP_RDM", "FI_EP_MSG", "FI_EP_DGRAM"):
        assert f"type: {kind}\n" in answered.output
    verbose = run([fi_info, "-v", "-c", "FI_RMA|FI_ATOMIC", "-t", "FI_EP_RDM"], provider_environment)
    assert verbose.status == 0, verbose
    assert "addr_format: FI_SOCKADDR_IN" in verbose.output
    refused = run([fi_info, "-c", "FI_COLLECTIVE"], provider_environment)
    assert refused.status == 61, refused  # FI_ENODATA


def test_fi_info_names_no_provider_of_its_own(provider_environment, needs_program):
    answered = run([needs_program("fi_info", "libfabric-bin"), "-l"], provider_environment)
    assert "amoeba:\n" in answered.output


@pytest.mark.parametrize(
    "device", ["model", pytest.param("rtl", marks=[pytest.mark.long, pytest.mark.timeout(400)])]
)
@pytest.mark.parametrize("endpoint", ["rdm", "msg", "dgram"])
def test_fi_pingpong(provider_environment, needs_program, host, endpoint, device):
    fi_pingpong = needs_program("fi_pingpong", "libfabric-bin")
    environment = provider_environment | {"AMOEBA_HOST": host, "AMOEBA_DEVICE": device}
    common = [fi_pingpong, "-p", "amoeba", "-e", endpoint, "-c", "-I", "10"]
    port = str(47600 + int(host.split(".")[-1]))  # of the connection beside the NICs', at every address of the host
    server, client = run_pair([*common, "-B", port], [*common, "-P", port, host], environment, 300)
    assert (server.status, client.status) == (0, 0), f"{server}\n{client}"
    assert "4k " in client.output
