"""C libraries with Amoeba inside: the parts that all of them need, whatever their interface.

A library is declared as data, built by the C compiler and cffi, and loaded by a program that knows nothing of Python.
Each of its C functions calls a Python function of the same name, and always gets a status from it::

    from amoeba.embed import Binding, CFunction, CLibrary, Handles, Memory, build, process_nic

    LIBRARY = CLibrary(
        name="libecho.so.1",
        entry="mypackage.echo",                      # this module: start(binding) is called before the first call
        types="typedef void (*echo_cb)(void *argument, int status);",
        functions=(
            CFunction("echo_open", "int", "uint64_t *handle", ended="-1"),
            CFunction("echo_send", "int64_t", "uint64_t handle, const void *data, size_t size", ended="-1"),
            CFunction("echo_later", "int", "uint64_t handle, echo_cb done, void *argument", ended="-1"),
            CFunction("echo_close", "int", "uint64_t handle", ended="-1"),
        ),
    )                                                # path = build(LIBRARY)

    def start(binding: Binding) -> None:
        handles, memory = Handles(), Memory(binding.ffi)

        def echo_open(handle):
            memory.require(handle, "handle")[0] = handles.add(Channel(process_nic()))

        def echo_send(handle, data, size):
            return handles.get(handle, Channel).send(memory.view(data, size))   # in place, no copy

        def echo_later(handle, done, argument):
            done(argument, 0)                        # C's function: called as any other, without the GIL

        def echo_close(handle):
            handles.remove(handle, Channel).nic.release()

        binding.define_all(locals_of_these, status)  # status(error) -> int: what C gets for an exception

- **Declaration** (:mod:`~amoeba.embed.library`): each function has its C types, and the value that it returns when
  Python has ended (``ended``). ``source`` is C that may call them by name; with ``exported=False`` only ``source``
  calls them. ``types`` are declared once, for compiler and cffi. ``helpers`` are C functions of ``source`` that
  Python calls by ``binding.lib``. ``start`` must define all declared functions.
- **Status** (:meth:`~amoeba.embed.binding.Binding.define`): a function returns C's result, None for 0, NULL or
  nothing. ``status`` converts every exception, also KeyboardInterrupt, and every result that C cannot have.
  :mod:`~amoeba.embed.telling` reports on standard error, once, errors other than FabricError and OSError, and
  mistakes by ``binding.teller.is_mistake``; with ``AMOEBA_DEBUG=1`` everything.
- **Handles** (:mod:`~amoeba.embed.handles`): numbers for objects, checked with their kind, never reused; they
  fit ``uint64_t`` and ``void *`` (``memory.pointer``, ``memory.address``).
- **Memory** (:mod:`~amoeba.embed.memory`): views of C's memory in place, for all calls that take a buffer.
- **The NIC of the process** (:mod:`~amoeba.embed.process_nic`): ``process_nic()`` ... ``release()``. Its ``nic`` goes
  to ``Fabric([mine.nic])`` or ``Adapters([mine.nic], mine.network)``, which do not close it. The process has one of
  each, as only one may run the NIC: automatic progress needs a single Fabric.
- **Threads** (:mod:`~amoeba.embed.fair_lock`): calls come one at a time. A call waits by :func:`wait_until`, which
  lets other calls proceed: ``wait_until(lambda: queue.read(), mine.rest, timeout)``; with automatic
  progress by ``without_fair_lock(lambda: queue.sread(timeout=timeout))``.
- **Python's lock**: a program that runs Python may keep it and wait for a C thread. A function declared with ``busy``
  returns that value to a C thread that cannot have the lock within 20 ms; ``deputy.c`` waits in its place. There an
  object can have an eventfd, which C writes to without Python: ``amoeba_set_bell`` and ``amoeba_ring``.
- **Fork**: objects are closed in the child; their calls return errors, and the child can open a NIC of its own.
- **The end** (:mod:`~amoeba.embed.ending`): ``at_end(function)``; the NIC is closed automatically. Before that,
  functions begin to return their ``ended``, and no function enters Python.
- **Programs that run Python** (``program.c``): their ``Py_Initialize`` and ``Py_Finalize`` share an interpreter that
  was started here.
"""

from amoeba.embed.binding import Binding, Status
from amoeba.embed.build import build, cache_folder
from amoeba.embed.ending import at_end
from amoeba.embed.fair_lock import wait_until, without_fair_lock
from amoeba.embed.handles import Handles
from amoeba.embed.library import CFunction, CLibrary
from amoeba.embed.memory import Memory
from amoeba.embed.process_nic import ProcessNic, process_nic

__all__ = [
    "Binding",
    "CFunction",
    "CLibrary",
    "Handles",
    "Memory",
    "ProcessNic",
    "Status",
    "at_end",
    "build",
    "cache_folder",
    "process_nic",
    "wait_until",
    "without_fair_lock",
]
