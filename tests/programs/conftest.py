"""Programs of others, unchanged, on NICs of ours."""

import pytest
from support.programs.fixtures import headers, host, libucp_environment, needs_program, provider_environment

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

__all__ = ["headers", "host", "libucp_environment", "needs_program", "provider_environment"]
