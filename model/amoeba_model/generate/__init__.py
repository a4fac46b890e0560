"""Files generated from the declared layouts: ``python -m amoeba_model.generate`` writes them.

They are checked in, so that readers and other tools need no Python; a test holds them fresh.
"""

from collections.abc import Mapping

from amoeba_model.generate.c_header import c_header
from amoeba_model.generate.markdown import (
    completions_page,
    descriptors_page,
    events_page,
    receives_page,
    registers_page,
    trace_page,
    ucp_page,
    wire_page,
)
from amoeba_model.generate.wireshark import dissector

__all__ = ["generated_files"]


def generated_files() -> Mapping[str, str]:
    """Generate the text of every file of ``docs/generated``, by its name."""
    return {
        "amoeba.h": c_header(),
        "amoeba_uet.lua": dissector(),
        "completions.md": completions_page(),
        "descriptors.md": descriptors_page(),
        "events.md": events_page(),
        "receives.md": receives_page(),
        "registers.md": registers_page(),
        "trace.md": trace_page(),
        "ucp.md": ucp_page(),
        "wire.md": wire_page(),
    }
