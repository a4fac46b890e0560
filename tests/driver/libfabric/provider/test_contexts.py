"""How many endpoints a program can enable: as many as its NIC has contexts, which AMOEBA_CONTEXTS says."""

import re
import subprocess

import pytest
from amoeba_model.parameters import NicParameters


@pytest.fixture(scope="module")
def program(compiled):
    return str(compiled("contexts"))


@pytest.mark.parametrize("wanted", [None, 12, 1])
def test_d8_a_program_enables_as_many_endpoints_as_it_asks_contexts_for(provider_environment, program, wanted):
    own = {"AMOEBA_DEBUG": "1"} | ({} if wanted is None else {"AMOEBA_CONTEXTS": str(wanted)})
    done = subprocess.run(
        [program], env=provider_environment | own, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    number = NicParameters().contexts if wanted is None else wanted
    assert done.stdout == f"{number} {number} No space left on device\n"
    assert re.search(rf"FI_ENOSPC: all {number} endpoint contexts are in use; .*AMOEBA_CONTEXTS", done.stderr)
