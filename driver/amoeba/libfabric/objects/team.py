"""Teams and windows: ranks that run one program, each with a NIC, and an array at each rank that all ranks reach.

A team is MPI's communicator and UCC's team; its window is MPI's window, made of OpenSHMEM's symmetric memory. Ranks
exchange addresses and keys beside the NICs: through the process they share
(:func:`run_team`), or over TCP between processes (:meth:`Team.join`).
"""

import json
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from amoeba.core.buffers import Buffer, allocate
from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.libfabric.objects.checks import check_number
from amoeba.libfabric.objects.cluster import join_cluster, open_cluster
from amoeba.libfabric.objects.constants import BindFlags, CqFormat, MrAccess, Progress
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.remote_array import RemoteArray

__all__ = ["Team", "Window", "run_team"]

T = TypeVar("T")
_ACCESS = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
_TAG_BITS = 32
_GRACE = 5.0
"""Seconds that ranks may take to notice that another one has failed."""


class Meeting(Protocol):
    """A place where ranks exchange values: a :class:`amoeba.Rendezvous`, or one within a process."""

    def exchange(self, value: object) -> list[Any]:
        """Give a value that JSON can carry, and get everybody's, by rank."""


class _Threads:
    """The place of one rank where ranks are threads."""

    def __init__(self, rank: int, barrier: threading.Barrier, slots: list[str]) -> None:
        self._rank = rank
        self._barrier = barrier
        self._slots = slots

    def exchange(self, value: object) -> list[Any]:
        self._slots[self._rank] = json.dumps(value)  # as between processes, so that nothing is shared
        try:
            self._barrier.wait()
            values = [json.loads(slot) for slot in self._slots]
            self._barrier.wait()  # no rank writes again before all have read
        except threading.BrokenBarrierError:
            raise fabric_error(Errno.FI_ECONNABORTED, "another rank of the team has ended") from None
        return values


class Team:
    """One rank's place among the ranks of a program: what :func:`run_team` gives it, or :meth:`join`.

    Ranks are numbered from 0, also in the address vector: ``dest_addr`` of the team's :attr:`endpoint` is
    a rank. The endpoint and its :attr:`queue` are the team's own: each call posts operations and takes entries. They
    are free between calls; for other uses open endpoints of :attr:`domain`.

    Every rank makes the same calls of :meth:`exchange`, :meth:`barrier` and :meth:`window`, in the same order. A
    context manager: closing it closes what it has opened.
    """

    def __init__(self, rank: int, ranks: int, domain: Domain, meeting: Meeting) -> None:
        self.rank = rank
        """This rank's number."""
        self.ranks = ranks
        """The number of ranks."""
        self.domain = domain
        self._meeting = meeting
        self._fabric: Fabric | None = None
        self._windows: list[Window] = []
        self._vector = domain.av_open()
        self.queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        self.endpoint = domain.endpoint(cq=self.queue, av=self._vector, cq_flags=both)
        for name in self.exchange(self.endpoint.getname().hex()):
            with understood():
                self._vector.insert(bytes.fromhex(name))

    @classmethod
    def join(cls, kind: str, rendezvous: Rendezvous, **options: Any) -> Self:
        """Be one rank of several processes, which meet at a rendezvous; with a NIC of its own.

        ``options`` are :func:`amoeba.join_cluster`'s. Progress is automatic: a rank that computes serves the others.
        Raises what that function raises.
        """
        fabric = join_cluster(kind, rendezvous, progress=Progress.FI_PROGRESS_AUTO, **options)
        try:
            team = cls(rendezvous.rank, rendezvous.ranks, fabric.domain(0), rendezvous)
        except BaseException:
            fabric.close()
            raise
        team._fabric = fabric
        return team

    # Meeting

    def exchange(self, value: object = None) -> list[Any]:
        """Give a value that JSON can carry, and get the values of all ranks; return only after all have called.

        Not by the NICs, but beside them: for addresses and keys, not for data. Raises TypeError for what JSON cannot
        carry, FI_ECONNABORTED if another rank has ended.
        """
        return self._meeting.exchange(value)

    def barrier(self) -> None:
        """Wait until every rank has called this. Raises FI_ECONNABORTED if another rank has ended."""
        self.exchange()

    def window(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.uint64) -> "Window":
        """Make an array of zeros at every rank, which all ranks reach: see :class:`Window`. Every rank calls this.

        The array stays until the team is closed. Raises FI_EINVAL for a dtype of references, a shape without
        elements, and another rank's different arguments.
        """
        self._windows.append(Window(self, shape, dtype))
        return self._windows[-1]

    # Messages

    def send(self, buf: Buffer, rank: int, tag: int = 0) -> None:
        """Send a contiguous buffer to a rank, whose :meth:`recv` names this rank and this tag of 32 bits.

        Returns when ``buf`` may be changed; a message longer than a packet is over only when it has been received.
        Raises FI_EINVAL for an invalid rank or tag, and the errors of :meth:`Endpoint.tsend`.
        """
        self.queue.post_and_wait(self.endpoint.tsend, buf, self._check(rank), self._tag(self.rank, tag))

    def recv(self, buf: Buffer, rank: int, tag: int = 0) -> int:
        """Receive the oldest message of a rank with this tag into a contiguous buffer; returns its length in bytes.

        Raises FI_ETRUNC for one that is longer than ``buf``, else as :meth:`send`.
        """
        entry = self.queue.post_and_wait(self.endpoint.trecv, buf, self._tag(self._check(rank), tag))
        return entry.len

    def sendrecv(self, buf: Buffer, dest: int, into: Buffer, source: int, tag: int = 0) -> int:
        """:meth:`send` to one rank and :meth:`recv` from another at once, as rings of ranks need it.

        Returns the received message's length in bytes.
        """
        self.endpoint.trecv(into, self._tag(self._check(source), tag), context=True)
        self.endpoint.tsend(buf, self._check(dest), self._tag(self.rank, tag))
        return next(entry.len for entry in self.queue.wait_for(2) if entry.op_context)

    def _check(self, rank: int) -> int:
        rank = check_number("rank", rank)
        if not 0 <= rank < self.ranks:
            raise fabric_error(Errno.FI_EINVAL, f"rank: expected 0 to {self.ranks - 1}, got {rank}")
        return rank

    @staticmethod
    def _tag(source: int, tag: int) -> int:
        """Return the tag on the wire: the sender's rank above the tag."""
        tag = check_number("tag", tag)
        if tag >> _TAG_BITS:
            raise fabric_error(Errno.FI_EINVAL, f"tag: expected {_TAG_BITS} bits, got {tag:#x}")
        return source << _TAG_BITS | tag

    # The end

    def close(self) -> None:
        """Wait for the others, as they may still reach this rank's memory, and close what :meth:`join` opened.

        Nothing for a rank of :func:`run_team`, which closes everything itself.
        """
        if self._fabric is None or self._fabric.closed:
            return
        try:
            self.barrier()
        finally:
            self._fabric.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._fabric is not None:  # a rank that has failed waits for no other
            self._fabric.close()

    def __repr__(self) -> str:
        return f"<Team rank {self.rank} of {self.ranks}>"


class Window(Sequence[RemoteArray]):
    """An array of each rank's, which all ranks reach: ``window[rank]`` is a :class:`RemoteArray`.

    :attr:`local` is this rank's own array, in its memory. Local reads and writes are neither ordered nor atomic with
    accesses of NICs. So update the array by ``window[team.rank]`` while others do, and read it after a barrier.
    """

    def __init__(self, team: Team, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        kind = np.dtype(dtype)
        lengths = tuple(operator.index(each) for each in (shape if isinstance(shape, tuple | list) else (shape,)))
        if kind.hasobject or not kind.itemsize:
            raise fabric_error(Errno.FI_EINVAL, f"dtype: expected numbers or bytes, got {kind!r}")
        if any(length < 1 for length in lengths):
            raise fabric_error(Errno.FI_EINVAL, f"shape: expected lengths of 1 or more, got {lengths}")
        nbytes = int(np.prod(lengths, dtype=object)) * kind.itemsize
        self.local: npt.NDArray[Any] = np.frombuffer(allocate(nbytes), np.uint8, nbytes).view(kind).reshape(lengths)
        self._region = team.domain.mr_reg(self.local, _ACCESS)
        told = team.exchange([self._region.address, self._region.key, str(kind.descr), lengths])
        with understood():
            for rank, (*_, descr, theirs) in enumerate(told):
                if (descr, tuple(theirs)) != (str(kind.descr), lengths):
                    theirs = f"{descr} {tuple(theirs)}"
                    raise fabric_error(
                        Errno.FI_EINVAL, f"expected {kind.descr} {lengths} of all ranks, rank {rank} has {theirs}"
                    )
            self._arrays = [
                team.endpoint.array(rank, (address, key), kind, lengths)
                for rank, (address, key, *_) in enumerate(told)
            ]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each rank's array."""
        return self.local.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.local.dtype

    def __getitem__(self, rank: Any) -> Any:
        """Return a rank's array, counted as a list's elements. Raises IndexError for an invalid rank."""
        try:
            return self._arrays[rank]
        except IndexError:
            raise IndexError(f"expected a rank of the window's {len(self)}, got {rank}") from None

    def __setitem__(self, rank: Any, values: Any) -> None:
        """Let ``window[rank] += values`` be the update that it is. Raises TypeError for other values."""
        if values is not self._arrays[rank]:
            raise TypeError("a window's arrays cannot be replaced: write elements, as window[rank][...] = values")

    def __len__(self) -> int:
        """Return the number of ranks."""
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"<Window {self.dtype} {self.shape} of {len(self)} ranks>"


def run_team(program: Callable[[Team], T], kinds: Sequence[str] = ("model", "model"), **options: Any) -> list[T]:
    """Run a program once for each NIC of a cluster, in a thread of its own; returns what each rank returned.

    ``options`` are :func:`amoeba.open_cluster`'s; progress is automatic. If a rank raises, the others' waits end with
    errors of their own. The rank's error is raised here with a note that names the rank; Ctrl-C ends all ranks, too.
    Raises what :func:`amoeba.open_cluster` raises.
    """
    if not callable(program):
        raise type_error("program", "a function of a Team", program)
    with open_cluster(kinds, progress=Progress.FI_PROGRESS_AUTO, **options) as fabric:
        run = _Run(fabric, program)  # with its teams, until the fabric has closed them
        return run.results()


class _Run:
    """The ranks of one program in this process."""

    def __init__(self, fabric: Fabric, program: Callable[[Team], Any]) -> None:
        self._fabric = fabric
        self._program = program
        self._ranks = len(fabric.nics)
        self._barrier = threading.Barrier(self._ranks)
        self._slots = [""] * self._ranks
        self._results: list[Any] = [None] * self._ranks
        self._failures: list[BaseException] = []
        self._teams: list[Team] = []
        """Kept until the end, as others reach the memory of ranks that have ended."""
        self._ended = threading.Semaphore(0)

    def results(self) -> list[Any]:
        # daemons: one that computes for ever must not keep the process after an error
        threads = [
            threading.Thread(target=self._run, args=(rank,), name=f"amoeba rank {rank}", daemon=True)
            for rank in range(self._ranks)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                self._ended.acquire()
                if self._failures:
                    raise self._failures[0]
        except BaseException:
            self._barrier.abort()
            self._fabric.close()
            for thread in threads:
                thread.join(_GRACE)
            raise
        return self._results

    def _run(self, rank: int) -> None:
        try:
            meeting = _Threads(rank, self._barrier, self._slots)
            team = Team(rank, self._ranks, self._fabric.domain(rank), meeting)
            self._teams.append(team)
            self._results[rank] = self._program(team)
        except BaseException as error:
            error.add_note(f"in rank {rank} of {self._ranks}")
            self._failures.append(error)
        finally:
            self._ended.release()
