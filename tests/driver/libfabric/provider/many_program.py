"""Run ``many.c`` in this process, and print what a number of rounds leaves behind, as JSON."""

import collections
import ctypes
import gc
import json
import sys
import tracemalloc
from pathlib import Path

_TRACED = 300
"""Rounds whose memory is looked at piece by piece, which is slow."""


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def kept():
    """Objects that Python knows of, and entries of its tables, whosever they are."""
    gc.collect()
    handles = gc.get_objects()
    tables = [subject for subject in handles if type(subject) in (dict, list, set, collections.deque)]
    return len(handles), sum(map(len, tables))


def main(library, rounds):
    many = ctypes.CDLL(library)
    many.begin()
    many.rounds(1500)  # rings and pools have their sizes
    many.rounds(_TRACED)
    handles, entries = kept()
    before = resident()
    many.rounds(rounds)
    grown = resident() - before
    later = kept()
    tracemalloc.start()
    many.rounds(_TRACED)
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    many.rounds(_TRACED)
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0] - first
    many.finish()
    found = {"resident": grown, "objects": later[0] - handles, "entries": later[1] - entries, "traced": traced}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
