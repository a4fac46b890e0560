"""A target behind a bad network: loses, doubles and reorders frames both ways, and refuses some.

It keeps hw/amoeba_hw/target/README.md: executes each packet once and in order, and answers as often as asked.
"""

import random
from dataclasses import dataclass, field

from amoeba_model.nic.pdc import MAX_MISSING
from amoeba_model.wire.nacks import PATIENT_NACKS
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.hw.initiator.environment import TARGET_PDC, cleared

PSN_MASK = 0xFFFF_FFFF

CLOSED = (ReturnCode.NULL, b"")
"""The answer to a CLOSE: there is no response."""


def is_before(psn, other):
    return (psn - other) & PSN_MASK >= 1 << 31


def nack(header, code, psn):
    """FRAME_HEADER of a refusal of a request, as it arrives."""
    return {
        "mac": header["mac"],
        "ip": header["ip"],
        "is_control": 1,
        "nack_code": code,
        "psn": psn & PSN_MASK,
        "spdcid": header["spdcid"] + TARGET_PDC,
        "dpdcid": header["spdcid"],
    }


@dataclass
class Pdc:
    start: int
    expected: int
    is_open: bool = True
    refused: bool = False
    """A NACK was sent since the expected psn last advanced."""
    answers: dict = field(default_factory=dict)
    """(return code, data) by psn."""
    kept: dict = field(default_factory=dict)
    """(header, payload) by psn, of packets behind a gap."""
    reached: int = 0
    """The psn behind the last packet that is kept or was asked for; no less than ``expected``."""


class LossyTarget:
    """Takes the place of an Environment's ``answer``.

    Parameters
    ----------
    environment : Environment
    answer : callable
        From a request header and its payload to (return code, data), for each packet executed.
    loss, doubling, refusal : float
        Probabilities: of each frame and of each answer, to get lost and to come twice; of each packet, to be refused:
        of the one that is expected with NO_RESOURCE, of those behind a gap with any NACK that asks for a hold-off.
    latest : int
        Most cycles that a frame or answer takes.
    slots : int
        Packets that each PDC keeps behind a gap; 0: it never does.
    """

    def __init__(self, environment, answer, loss=0.0, doubling=0.0, refusal=0.0, latest=60, slots=0):
        self._environment = environment
        self._answer = answer
        self._loss, self._doubling, self._refusal, self._latest = loss, doubling, refusal, latest
        self._slots = slots
        self.pdcs = {}
        self.executed = []
        """(header, payload) of each packet, as it was sent the first time."""

    def __call__(self, header, payload):
        self._travel(lambda: self._receive(header, payload))

    def _travel(self, action):
        if random.random() < self._loss:
            return
        for _ in range(2 if random.random() < self._doubling else 1):
            self._environment.after(random.randint(5, self._latest), action)

    def _receive(self, header, payload):
        psn, pdc = header["psn"], self.pdcs.get(header["spdcid"])
        if header["syn"]:
            start = (psn - header["dpdcid"]) & PSN_MASK
            if pdc is None or pdc.start != start:
                if header["dpdcid"]:
                    self._refuse(header, NackCode.ROD_OOO, start)
                    return
                pdc = self.pdcs[header["spdcid"]] = Pdc(start, psn, reached=psn)
        elif pdc is None:
            self._refuse(header, NackCode.INV_DPDCID, psn)
            return
        if is_before(psn, pdc.expected):
            if psn in pdc.answers:
                self._respond(header, pdc, again=True)
        elif not pdc.is_open:
            self._refuse(header, NackCode.INV_DPDCID, psn)
        elif psn != pdc.expected:
            self._take_early(header, payload, pdc)
        elif random.random() < self._refusal:
            pdc.refused = True
            self._refuse(header, NackCode.NO_RESOURCE, psn)
        else:
            self._execute(header, payload, pdc)
            pdc.kept.pop(psn, None)
            if pdc.expected in pdc.kept:
                self._receive(*pdc.kept.pop(pdc.expected))

    def _take_early(self, header, payload, pdc):
        """A packet behind a gap: keep it, and say what is missing, or have all behind the gap sent again."""
        psn = header["psn"]
        if random.random() < self._refusal:
            self._refuse(header, random.choice(sorted(PATIENT_NACKS)), psn)
            return
        if is_before(pdc.reached, pdc.expected):
            pdc.reached = pdc.expected
        beyond = not is_before(psn, pdc.reached)
        if psn in pdc.kept:
            return
        # Packets of an epoch before may be anywhere.
        if len(pdc.kept) < self._slots and (psn - pdc.expected) & PSN_MASK <= MAX_MISSING:
            pdc.kept[psn] = header, payload
            if beyond and psn != pdc.reached:
                self._refuse(header, NackCode.ROD_OOO, pdc.reached, (psn - pdc.reached) & PSN_MASK)
            if beyond:
                pdc.reached = (psn + 1) & PSN_MASK
        elif header["retx"] or not pdc.refused:
            pdc.refused = True
            self._refuse(header, NackCode.ROD_OOO, pdc.expected)

    def _execute(self, header, payload, pdc):
        pdc.expected = (header["psn"] + 1) & PSN_MASK
        pdc.refused = False
        pdc.is_open = not header["is_control"]
        self.executed.append(({**header, "retx": 0}, payload))
        pdc.answers[header["psn"]] = CLOSED if header["is_control"] else self._answer(header, payload)
        self._respond(header, pdc, again=False)

    def _respond(self, header, pdc, again):
        code, content = pdc.answers[header["psn"]]
        before = (cleared(header) + 1) & PSN_MASK
        plain = not again
        while before != header["psn"] and plain:
            plain = pdc.answers[before] == (ReturnCode.OK, b"")
            before = (before + 1) & PSN_MASK
        changes = {"cack_psn": header["psn"] if plain else cleared(header), "retx": header["retx"]}
        environment = self._environment
        self._travel(lambda: environment.respond(header, code, content, **changes))

    def _refuse(self, header, code, psn, missing=0):
        self._travel(lambda: self._environment.responses.send({**nack(header, code, psn), "missing": missing}))


def perfect(answer):
    """The same answers for the model's initiator, which asks also for those of CLOSE."""
    return lambda header, payload: CLOSED if header["is_control"] else answer(header, payload)
