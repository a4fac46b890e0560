"""An MPI program: what its argument names, on every rank; it ends with an error if anything is not right."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
right, left = (rank + 1) % size, (rank - 1) % size


def collectives():
    assert world.allreduce(rank + 1) == size * (size + 1) // 2
    assert world.bcast({"from": 0} if rank == 0 else None) == {"from": 0}
    assert world.allgather(rank) == list(range(size))
    assert world.alltoall([(rank, to) for to in range(size)]) == [(who, rank) for who in range(size)]
    mine, all_of_them = np.full(5000, rank, np.int32), np.empty(5000 * size, np.int32)
    world.Allgather(mine, all_of_them)
    assert (all_of_them.reshape(size, 5000) == np.arange(size)[:, None]).all()
    total = np.empty(20000)
    world.Allreduce(np.full(20000, rank + 0.5), total)
    assert (total == sum(each + 0.5 for each in range(size))).all()
    assert world.scan(1) == rank + 1
    world.Barrier()


def messages():
    # 100 sends, received in reverse
    sent = [world.isend((rank, number), right, tag=number) for number in range(100)]
    for number in reversed(range(100)):
        assert world.recv(source=left, tag=number) == (left, number)
    MPI.Request.waitall(sent)
    # a megabyte, synchronously
    outgoing, incoming = np.arange(1 << 17, dtype=np.float64) + rank, np.empty(1 << 17)
    receive = world.Irecv(incoming, left, tag=7)
    world.Ssend(outgoing, right, tag=7)
    receive.Wait()
    assert (incoming == np.arange(1 << 17) + left).all()
    # probed
    request = world.isend("x" * (100 * rank), right, tag=9)
    status = MPI.Status()
    message = world.mprobe(left, 9, status)
    assert message.recv() == "x" * (100 * left)
    assert (status.source, status.tag) == (left, 9)
    request.wait()


def datatypes():
    column = MPI.DOUBLE.Create_vector(16, 1, 16).Commit()
    matrix = np.arange(256.0).reshape(16, 16) + 1000 * rank
    got = np.zeros((16, 16))
    world.Sendrecv([matrix, 1, column], right, 3, [got, 1, column], left, 3)
    assert (got[:, 0] == np.arange(256.0).reshape(16, 16)[:, 0] + 1000 * left).all()
    assert not got[:, 1:].any()
    column.Free()


def _accumulated(name):
    """The result of all ranks' values 3, 5, 7 ... on 6, in any order that gives the same."""
    values = [2 * each + 3 for each in range(size)]
    kinds = {
        "sum": lambda: 6 + sum(values), "prod": lambda: 6 * int(np.prod(values)), "min": lambda: min(6, *values),
        "max": lambda: max(6, *values), "band": lambda: 6 & int(np.bitwise_and.reduce(values)),
        "bor": lambda: 6 | int(np.bitwise_or.reduce(values)),
        "bxor": lambda: 6 ^ int(np.bitwise_xor.reduce(values)), "land": lambda: 1, "lor": lambda: 1,
        "lxor": lambda: (1 + size) % 2,
    }  # fmt: skip
    return kinds[name]()


def accumulates():
    """Every operation, as one of the NIC's: MPICH must be told that no others will be used on the window."""
    operations = ("sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor")
    for name in operations:
        op = getattr(MPI, name.upper())
        info = MPI.Info.Create({"which_accumulate_ops": name})
        memory = np.full(4, 6, np.int64)
        window = MPI.Win.Create(memory, disp_unit=8, info=info, comm=world)
        window.Fence()
        window.Accumulate(np.array([2 * rank + 3], np.int64), 0, (1, 1, MPI.LONG), op)
        window.Fence()
        if rank == 0:
            assert memory.tolist() == [6, _accumulated(name), 6, 6], (name, memory)
        window.Free()
        info.Free()
    replaced()


def replaced():
    """MPI_REPLACE and MPI_NO_OP: writes and reads that nothing tears."""
    info = MPI.Info.Create({"which_accumulate_ops": "replace,no_op"})
    memory, old = np.full(4, rank, np.int64), np.full(4, -1, np.int64)
    window = MPI.Win.Create(memory, disp_unit=8, info=info, comm=world)
    window.Fence()
    window.Accumulate(np.arange(4) + 10 * rank, right, (0, 4, MPI.LONG), MPI.REPLACE)
    window.Fence()
    assert memory.tolist() == [10 * left + place for place in range(4)]
    window.Get_accumulate(np.zeros(4, np.int64), old, right, (0, 4, MPI.LONG), MPI.NO_OP)
    window.Fence()
    assert old.tolist() == [10 * rank + place for place in range(4)]
    window.Get_accumulate(np.full(4, 5, np.int64), old, right, (0, 4, MPI.LONG), MPI.REPLACE)
    window.Fence()
    assert old.tolist() == [10 * rank + place for place in range(4)]
    assert memory.tolist() == [5] * 4
    window.Free()
    info.Free()


def fetches():
    old, one = np.full(1, -1, np.int64), np.ones(1, np.int64)
    memory = np.zeros(1, np.int64)
    info = MPI.Info.Create({"which_accumulate_ops": "sum"})
    window = MPI.Win.Create(memory, disp_unit=8, info=info, comm=world)
    seen = []
    window.Lock_all()
    for _ in range(10):
        window.Fetch_and_op(one, old, 0, 0, MPI.SUM)
        window.Flush(0)
        seen.append(int(old[0]))
    window.Unlock_all()
    assert sorted(each for part in world.allgather(seen) for each in part) == list(range(10 * size))
    window.Free()


def swaps():
    """A lock by compare-and-swap, held by one at a time."""
    old, zero, own = np.full(1, -1, np.int64), np.zeros(1, np.int64), np.array([rank + 1], np.int64)
    memory = np.zeros(1, np.int64)
    info = MPI.Info.Create({"which_accumulate_ops": "cswap"})
    window = MPI.Win.Create(memory, disp_unit=8, info=info, comm=world)
    window.Lock_all()
    for _ in range(3):
        for wanted, there in ((own, zero), (zero, own)):
            while True:
                window.Compare_and_swap(wanted, there, old, 0, 0)
                window.Flush(0)
                if old[0] == there[0]:
                    break
                assert there is zero  # nobody else may take it away
    window.Unlock_all()
    world.Barrier()
    assert rank or memory[0] == 0
    window.Free()


def epochs():
    """Put and get under each kind of synchronization."""
    memory, got = np.full(8, rank, np.float64), np.empty(8)
    window = MPI.Win.Create(memory, disp_unit=8, comm=world)
    window.Fence()
    window.Get(got, right)
    window.Fence()
    assert (got == right).all()
    group = world.group
    window.Post(group.Incl([left]))
    window.Start(group.Incl([right]))
    window.Put(np.full(8, 100.0 + rank), right)
    window.Complete()
    window.Wait()
    assert (memory == 100 + left).all()
    world.Barrier()
    window.Lock(right, MPI.LOCK_EXCLUSIVE)
    window.Put(np.full(1, -1.0), right, (3, 1, MPI.DOUBLE))
    window.Unlock(right)
    world.Barrier()
    assert memory[3] == -1
    window.Free()


def dynamic():
    window = MPI.Win.Create_dynamic(comm=world)
    memory = np.full(4, rank, np.int64)
    window.Attach(memory)
    places = world.allgather(MPI.Get_address(memory))
    window.Lock_all()
    window.Accumulate(np.array([10], np.int64), right, (places[right], 1, MPI.LONG), MPI.SUM)
    window.Flush_all()
    window.Unlock_all()
    world.Barrier()
    assert memory.tolist() == [rank + 10, rank, rank, rank]
    window.Detach(memory)
    window.Free()


ALL = (collectives, messages, datatypes, accumulates, fetches, swaps, epochs, dynamic)
PARTS = {each.__name__: each for each in ALL}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    world.Barrier()
    if rank == 0:
        print("every part is right")
