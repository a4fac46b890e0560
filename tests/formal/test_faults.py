# amaranth: UnusedElaboratable=no
"""The proofs of the hazards of memory engine, initiator, target, messages, event counters and the host's requests
notice what they are there to notice: each fault makes one fail."""

import inspect
from types import ModuleType

import pytest
from amoeba_sim.formal import ProofFailed, prove

from tests.formal import memory, recovery
from tests.formal.faults import host, initiator, messages, target
from tests.formal.faults import memory as memory_faults

_BLOCKS = (host, memory_faults, initiator, target, messages)
FAULTS = {fault: row for block in _BLOCKS for fault, row in block.FAULTS.items()}
"""By fault: the module, the component, the expression, and its replacement."""
SPECIFICATIONS = {component: row for block in _BLOCKS for component, row in block.SPECIFICATIONS.items()}
"""By component: the specification that notices, how it is proven, and for how many cycles."""
_RESENT, _ASKED = (recovery, "OldestResentSpec", "bmc", 12), (recovery, "OldestAskedSpec", "bmc", 20)
OTHER_SPECIFICATIONS = {
    "a hold-off ends with another packet than the oldest": _RESENT,
    "a hold-off begins before the oldest packet has left": _RESENT,
    "further NACKs prolong a hold-off": _ASKED,
}
"""By fault, where it is another one."""


def test_no_two_blocks_have_a_fault_of_the_same_name():
    assert len(FAULTS) == sum(len(block.FAULTS) for block in _BLOCKS)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_hardware_has_what_the_fault_replaces(fault):
    module, name, right, wrong = FAULTS[fault]
    assert hasattr(broken(module, name, right, wrong), "elaborate")


def broken(module, name, right, wrong):
    """The class ``name`` of ``module`` with one expression replaced."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{module.__name__} has changed: {right!r} is not in it exactly once"
    changed = ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), changed.__dict__)
    return getattr(changed, name)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_noticed(fault, monkeypatch, tmp_path):
    module, name, right, wrong = FAULTS[fault]
    faulty = broken(module, name, right, wrong)
    if name == "Executor":
        # The specification replaces the arithmetic by patching the module; do the same to this copy.
        faulty.__init__.__globals__["Arithmetic"] = memory._NaiveArithmetic
    specifications, specification, mode, depth = OTHER_SPECIFICATIONS.get(fault, SPECIFICATIONS[name])
    monkeypatch.setattr(specifications, name, faulty)
    with pytest.raises(ProofFailed) as caught:
        prove(getattr(specifications, specification)(), "fault", mode=mode, depth=depth, timeout=300, build=tmp_path)
    where = specifications.__name__.replace(".", "/")
    assert all(f"{where}.py" in place for place in caught.value.places)
