"""100,000 operations, and what is left of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 10_000
"""Of ten operations."""


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_hundred_thousand_operations_leave_no_memory_behind(compiled, provider_environment):
    library = compiled("many", "-shared", "-fPIC")
    program = Path(__file__).with_name("many_program.py")
    done = subprocess.run(
        [sys.executable, str(program), str(library), str(ROUNDS)], env=provider_environment, capture_output=True,
        text=True, check=False, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = json.loads(done.stdout)
    # less than a hundredth of an object, and 21 bytes, for an operation: it does not grow with them
    assert found["objects"] < ROUNDS / 100, found
    assert found["entries"] < ROUNDS / 100, found
    assert found["resident"] < 2 << 20, found
    assert found["traced"] < 64 << 10, found
