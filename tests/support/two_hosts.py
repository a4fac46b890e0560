"""Two hosts on one Ethernet link: two network namespaces of this one, without privileges."""

import os
import shutil
import subprocess
from collections.abc import Mapping

import pytest

__all__ = ["on_two_hosts"]


def _need_namespaces() -> None:
    """Skip unless this user may have network namespaces."""
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: apt-get install iproute2 util-linux")
    if subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets its users make no network namespaces")


_TWO_HOSTS = """
set -e
unshare -n sleep 600 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add name left type veth peer name right
ip link set right netns $other
ip addr add 10.9.0.1/24 dev left
ip link set left up
ip link set lo up
nsenter -t $other -n sh -c 'ip addr add 10.9.0.2/24 dev right; ip link set right up; ip link set lo up'
export OTHER=$other
"""


def on_two_hosts(
    script: str, *arguments: object, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a network namespace with address 10.9.0.1; process ``$OTHER`` has 10.9.0.2.

    ``arguments`` are the script's. Skips where there are no namespaces.
    """
    _need_namespaces()
    found = subprocess.run(
        ["unshare", "-Urn", "bash", "-c", _TWO_HOSTS + script, "bash", *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=False, env={**environment, "AMOEBA_NETWORK": "uet"},
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return found
