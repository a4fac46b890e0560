"""Tests that run in an event loop, and what they await."""

import asyncio
import functools

from amoeba import BindFlags, CqFormat, WaitObj
from amoeba.aio import AsyncCompletionQueue


def in_loop(test):
    """Run an async test to its end, which must come within a minute."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def limited():
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


class Awaitable:
    """An endpoint whose queue has a descriptor, and where its operations go."""

    def __init__(self, pair, region, keep, cq_flags=BindFlags.FI_TRANSMIT):
        self.domain = pair[0].domain
        self.queue = keep(self.domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG, WaitObj.FI_WAIT_FD))
        self.peers = keep(self.domain.av_open())
        self.endpoint = keep(self.domain.endpoint(tx_size=16, cq=self.queue, av=self.peers, cq_flags=cq_flags))
        self.completions = keep(AsyncCompletionQueue(self.queue))
        self.remote = self.completions.endpoint(self.endpoint)
        self.to = (self.peers.insert(pair[1].endpoint.getname()), region.address, region.key)
        self.wrong = (*self.to[:2], region.key ^ 1)
