"""Programs under ``amoeba fi-run`` and ``ucx-run``, and the counts that these commands print at the end."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.programs.running import Ended, run

__all__ = ["ON_ANY_MACHINE", "run_counted"]

ON_ANY_MACHINE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm_rsh_agent": "true",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""For Open MPI 4 and 5 on any machine; nothing of what it communicates over."""


def run_counted(
    command: str, arguments: Sequence[str], environment: Mapping[str, str], timeout: float = 120.0
) -> tuple[Ended, dict[str, Any]]:
    """Run ``amoeba COMMAND ARGUMENTS``, which must succeed: how it ended, and the counts of ``AMOEBA_COUNT=json``."""
    launched = [sys.executable, "-m", "amoeba_tools", command, *arguments]
    ended = run(launched, {**environment, "AMOEBA_COUNT": "json"}, timeout)
    assert ended.status == 0, ended
    (line,) = [line for line in ended.output.splitlines() if line.startswith('{"command"')]
    return ended, json.loads(line)
