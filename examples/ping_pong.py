"""A message that two NICs send back and forth, and how many simulated cycles a round trip takes, with Amoeba."""

import sys

import amoeba
import numpy as np
from amoeba import BindFlags

ROUNDS = 10


class Player:
    """An endpoint that sends and receives, with one queue for both."""

    def __init__(self, domain: amoeba.Domain) -> None:
        self.queue, self.peers = domain.cq_open(), domain.av_open()
        self.endpoint = domain.endpoint(
            cq=self.queue, av=self.peers, cq_flags=BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        )
        self.ball = np.zeros(1, np.uint64)

    def wait_for(self, context: str) -> None:
        """Read completions until this one has come."""
        while all(entry.op_context != context for entry in self.queue.sread(4)):
            pass


def main(device: str = "model") -> tuple[int, int]:
    with amoeba.open_cluster([device, device]) as fabric:
        players = [Player(fabric.domain(rank)) for rank in (0, 1)]
        to = [players[0].peers.insert(players[1].endpoint.getname())]
        to.append(players[1].peers.insert(players[0].endpoint.getname()))
        start = fabric.devices[0].cycles
        players[0].ball[0] = 1
        for turn in range(2 * ROUNDS):
            server, receiver = players[turn % 2], players[1 - turn % 2]
            receiver.endpoint.recv(receiver.ball, context="received")
            server.endpoint.send(server.ball, to[turn % 2], context="sent")
            receiver.wait_for("received")
            receiver.ball += np.uint64(1)
            server.wait_for("sent")
        hits = int(players[0].ball[0]) - 1
        cycles = (fabric.devices[0].cycles - start) // ROUNDS
        print(f"the ball was hit {hits} times; a round trip took {cycles} cycles of the simulated {device}")
        return hits, cycles


if __name__ == "__main__":
    main(*sys.argv[1:])
