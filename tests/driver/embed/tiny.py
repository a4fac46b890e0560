"""A C library with a function of each sort, as the smallest user of ``amoeba.embed`` and its example."""

import os
import sys
from dataclasses import dataclass, field

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.embed import Binding, CFunction, CLibrary, Handles, Memory, ProcessNic, at_end, process_nic, wait_until
from amoeba.transport.protection_domain import ProtectionDomain

LIBRARY = CLibrary(
    name="libtiny.so.1",
    entry="tiny",
    types="typedef void (*tiny_cb)(void *argument, int status); struct tiny_pair { int first; int64_t second; };",
    helpers="int tiny_twice(int number);",
    functions=(
        CFunction("tiny_nop", "int", "int number", ended="-107"),
        CFunction("tiny_poll", "int", "int number", ended="-107", busy="-11"),
        CFunction("tiny_open", "int", "uint64_t *handle", ended="-107"),
        CFunction("tiny_link", "int", "uint64_t handle, char *host, size_t size, uint16_t *port", ended="-107"),
        CFunction("tiny_close", "int", "uint64_t handle", ended="-107"),
        CFunction("tiny_sum", "int64_t", "const void *data, size_t size", ended="-107"),
        CFunction("tiny_fill", "int", "void *data, size_t size, int value", ended="-107"),
        CFunction("tiny_call", "int", "tiny_cb call, void *argument, int times", ended="-107"),
        CFunction("tiny_raise", "int", "int what", ended="-107"),
        CFunction("tiny_pointer", "void *", "int what", ended="NULL"),
        CFunction("tiny_pair", "int", "struct tiny_pair *pair", ended="-107"),
        CFunction("tiny_wait", "int", "uint64_t handle, int *flag, double seconds", ended="-107"),
        CFunction("tiny_help", "int", "int number", ended="-107", exported=False),
    ),
    source="""
        static int tiny_twice(int number) { return 2 * number; }
        __attribute__((visibility("default"))) int tiny_outer(int number) { return tiny_help(number) + 1; }
    """,
)


@dataclass
class Channel:
    """The object behind a handle of this library."""

    mine: ProcessNic
    domain: ProtectionDomain = field(init=False)

    def __post_init__(self) -> None:
        self.domain = ProtectionDomain(self.mine.nic, job_id=1, pid_on_fep=1)

    def close(self) -> None:
        if not self.mine.closed:  # not in a child of the process that has it
            self.domain.release()
            self.mine.release()


def status(error: BaseException) -> int:
    return -int(error.fi_errno if isinstance(error, FabricError) else Errno.FI_EOTHER)


def start(binding: Binding) -> None:
    handles, memory = Handles(), Memory(binding.ffi)

    def tiny_nop(number):
        return number

    def tiny_poll(number):
        return number

    def tiny_open(handle):
        memory.require(handle, "handle")[0] = handles.add(Channel(process_nic()))

    def tiny_link(handle, host, size, port):
        name, number = handles.get(handle, Channel).mine.link
        memory.put_string(host, size, name)
        memory.require(port, "port")[0] = number

    def tiny_close(handle):
        handles.remove(handle, Channel).close()

    def tiny_sum(data, size):
        return sum(memoryview(memory.view(data, size)))

    def tiny_fill(data, size, value):
        memory.view(data, size)[:] = bytes([value]) * size

    def tiny_call(call, argument, times):
        memory.require(call, "call")
        for number in range(times):
            call(argument, number)

    def tiny_raise(what):
        if what == 0:
            raise fabric_error(Errno.FI_EAGAIN, "again")
        raise {1: ValueError("odd"), 2: KeyboardInterrupt(), 3: SystemExit(4), 4: MemoryError()}[what]

    def tiny_pointer(what):
        return [memory.pointer(4096), None, 17][what]

    def tiny_pair(pair):
        memory.require(pair, "pair").second = pair.first

    def tiny_wait(handle, flag, seconds):
        mine = handles.get(handle, Channel).mine

        def ready():
            mine.step()
            return flag[0]

        return 0 if wait_until(ready, mine.rest, seconds) else -int(Errno.FI_ETIMEDOUT)

    def tiny_help(number):
        return binding.lib.tiny_twice(number)

    defined = {name: value for name, value in locals().items() if name.startswith("tiny_")}
    binding.define_all(defined, status)
    if os.environ.get("TINY_AT_END"):
        at_end(lambda: print("the end", file=sys.stderr, flush=True))
