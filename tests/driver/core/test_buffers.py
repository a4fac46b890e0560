"""Memory that the driver allocates for the NIC begins with a line: an operation takes equal cycles in every run."""

import pytest
from amoeba.core.buffers import address_of, line_aligned
from amoeba.transport.posting import Local, gathered
from amoeba.transport.receive import ANYBODY, Receive

WIDEST_LINE = 64
SIZES = [1, 15, 64, 65, 4096, 200_000]


@pytest.mark.parametrize("size", [0, *SIZES])
def test_line_aligned_memory_has_its_size_and_zeros_wherever_the_heap_has_space(size):
    kept = []
    for shift in range(1, 130, 16):  # each takes away the place that the one before had
        memory = line_aligned(size)
        kept.append((memory, bytearray(shift)))
        assert memory.nbytes == size
        assert not any(memory)
        assert address_of(memory) % WIDEST_LINE == 0
        memory[:] = bytes(size)  # writable


@pytest.mark.parametrize("size", SIZES)
def test_buffers_gathered_for_a_send_begin_with_a_line(size):
    parts = [memoryview(bytes([number]) * size) for number in (1, 2, 3)]
    copy = gathered([Local(part, None, writable=False) for part in parts], 3 * size)
    assert copy.address == address_of(copy.view)
    assert copy.address % WIDEST_LINE == 0
    assert bytes(copy.view) == b"".join(parts)


@pytest.mark.parametrize("size", SIZES)
def test_memory_for_a_scattered_message_begins_with_a_line_and_has_the_contents_of_its_buffers(size):
    parts = [memoryview(bytearray([number]) * size) for number in (1, 2)]
    receive = Receive(False, 0, 0, ANYBODY, None, 0, parts)
    whole = receive.gather()
    assert receive.address == address_of(whole)
    assert receive.address % WIDEST_LINE == 0
    assert bytes(whole) == b"".join(parts)
