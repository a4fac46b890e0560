"""Questions to VFIO's type 1, and its answers: asked of Linux in a virtual machine, and of the fake kernel here."""

import contextlib
import errno
import mmap

import numpy as np
from amoeba.core.buffers import address_of, allocate
from amoeba.devices.pcie.vfio import Request
from amoeba_model.vfio import DMA_UNMAP

__all__ = ["ANSWERS", "ask"]

PAGE = 4096
ANSWERS = [
    ("a page", 0),
    ("the same page again", errno.EEXIST),
    ("pages that overlap it", errno.EEXIST),
    ("an unaligned address", errno.EINVAL),
    ("an unaligned size", errno.EINVAL),
    ("nothing", errno.EINVAL),
    ("four pages", 0),
    ("unmap a part", errno.EINVAL),
    ("unmap nothing", 0),
    ("unmap unaligned", errno.EINVAL),
    ("unmap more than there is", 5 * PAGE),
    ("the hole of the interrupts", errno.EINVAL),
    ("beyond the address width", errno.EINVAL),
    ("what is no memory", errno.EFAULT),
    ("read-only memory, to write", errno.EFAULT),
    ("read-only memory, to read", 0),
]
"""The attempted call, and its error number or, for an unmapping, its number of bytes."""


def ask(function, file):
    """The answers of an opened function's kernel. ``file``: the path of one that is a page long."""
    answers = []
    memory = allocate(16 * PAGE)
    start = address_of(memory)

    def attempt(name, call, *arguments):
        try:
            answers.append((name, call(*arguments) or 0))
        except OSError as error:
            answers.append((name, error.errno))

    def unmap(iova, size):
        request = bytearray(DMA_UNMAP.pack(DMA_UNMAP.size, 0, iova, size))
        function._kernel.ioctl(function._container, Request.IOMMU_UNMAP_DMA, request)
        return DMA_UNMAP.unpack(request)[3]

    attempt("a page", function.map, start, start, PAGE, True)
    attempt("the same page again", function.map, start, start, PAGE, True)
    attempt("pages that overlap it", function.map, start - PAGE, start, 4 * PAGE, True)
    attempt("an unaligned address", function.map, start + 8 * PAGE + 8, start + 8 * PAGE + 8, PAGE, True)
    attempt("an unaligned size", function.map, start + 8 * PAGE, start + 8 * PAGE, 100, True)
    attempt("nothing", function.map, start + 8 * PAGE, start + 8 * PAGE, 0, True)
    attempt("four pages", function.map, start + 4 * PAGE, start + 4 * PAGE, 4 * PAGE, True)
    attempt("unmap a part", unmap, start + 5 * PAGE, PAGE)
    attempt("unmap nothing", unmap, start + 12 * PAGE, PAGE)
    attempt("unmap unaligned", unmap, start + 8, PAGE)
    attempt("unmap more than there is", unmap, start, 16 * PAGE)
    attempt("the hole of the interrupts", function.map, 0xFEE0_0000, start, PAGE, True)
    attempt("beyond the address width", function.map, 1 << 60, start, PAGE, True)
    gone = mmap.mmap(-1, PAGE)
    nowhere = address_of(memoryview(gone))
    gone.close()
    attempt("what is no memory", function.map, nowhere, nowhere, PAGE, True)
    with open(file, "rb") as opened, contextlib.ExitStack() as kept:
        view = kept.enter_context(mmap.mmap(opened.fileno(), PAGE, access=mmap.ACCESS_READ))
        shown = np.frombuffer(view, np.uint8).ctypes.data
        attempt("read-only memory, to write", function.map, shown, shown, PAGE, True)
        attempt("read-only memory, to read", function.map, shown, shown, PAGE, False)
        with contextlib.suppress(OSError):
            unmap(shown, PAGE)
    return answers
