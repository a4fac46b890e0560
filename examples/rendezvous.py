"""A message of many packets that its receiver reads once a receive wants it: rendezvous, with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import BindFlags, OpFlags

LENGTH = 1 << 20
TAG = 0x7A6


def main(device: str = "model") -> tuple[bool, bool]:
    both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
    with amoeba.open_cluster([device, device]) as fabric:
        one, other = fabric.domain(0), fabric.domain(1)
        sent, peers = one.cq_open(), one.av_open()
        sender = one.endpoint(cq=sent, av=peers, cq_flags=both)
        received, others = other.cq_open(), other.av_open()
        receiver = other.endpoint(cq=received, av=others, cq_flags=both)
        to = peers.insert(receiver.getname())
        others.insert(sender.getname())  # whom to read from

        source = np.random.default_rng(1).integers(0, 1 << 32, LENGTH // 4, np.uint32)
        target = np.zeros_like(source)
        sender.tsend(source, to, TAG, flags=OpFlags.FI_COMPLETION)
        early = bool(sent.read())  # the receive is not posted yet, so the send cannot have completed
        receiver.trecv(target, TAG)
        received.sread()  # the message is there
        sent.sread()  # and its sender knows
        same = bool((source == target).all())
        print(f"{LENGTH} bytes were read by their receiver; complete before they were wanted: {early}; same: {same}")
        return early, same


if __name__ == "__main__":
    main(*sys.argv[1:])
