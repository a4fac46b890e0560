"""Testbench of the whole NIC in any simulator: its link leads back to it, and it executes each operation once.

Parameters: ``nic``, the fields of NicParameters; ``forms``, the forms of atomic operations to execute.
"""

import random

import cocotb
from amoeba_model.atomic import cells, execute_element
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import always
from cocotb.triggers import Timer

from tests.hw.nic_environment import KEY, LOCAL, REGION, NicBench, descriptor
from tests.hw.uet_frames import OWN_IP, OWN_MAC

PARAMETERS = NicParameters(
    **bench_parameters()["nic"]
    | {
        "datatypes": tuple(map(Datatype, bench_parameters()["nic"]["datatypes"])),
        "ops": tuple(map(Op, bench_parameters()["nic"]["ops"])),
    }
)
OK = 1
D_WRITE, D_READ, D_ATOMIC, D_FETCH, D_COMPARE = range(1, 6)
OPCODES = {Form.BASE: D_ATOMIC, Form.FETCH: D_FETCH, Form.COMPARE: D_COMPARE}
TARGET = REGION.start + 1
OPERAND, RESULT, COMPARE = LOCAL.start, LOCAL.start + 0x1000, LOCAL.start + 0x2000


async def powered_up(dut):
    # The models of the buses take no unknown value: they drive all inputs before the first edge of the clock.
    dut.clk.value = 0
    dut.rst.value = 1
    await Timer(1, "ns")
    bench = NicBench(dut, PARAMETERS, always)
    await Timer(1, "ns")
    await bench.power_up()
    await bench.store_peer(0, OWN_MAC, OWN_IP, 0x100)
    cocotb.start_soon(looped(bench))
    return bench


async def looped(bench):
    """The link leads back to the NIC."""
    while True:
        bench.send(await bench.tx.recv())


async def execute(bench, opcode, length, **fields):
    """Have one request executed."""
    await bench.post(descriptor(opcode, length=length, remote=TARGET, key=KEY, **fields))
    *_, executed, status = await bench.completion()
    assert (executed, status) == (opcode, OK)


async def execute_cell(bench, cell):
    size = cell.datatype.size
    old, operand, compare = (random.randbytes(size) for _ in range(3))
    if (cell.op, cell.datatype) == (Op.FI_SUM, Datatype.FI_UINT64):
        old, operand = (value.to_bytes(8, "little") for value in (0x8000_0000_0000_0003, 5))
    result = bytes(size) if cell.form is Form.BASE else old
    for address, content in ((TARGET, old), (OPERAND, operand), (RESULT, bytes(size)), (COMPARE, compare)):
        bench.memory[address] = content
    fields = {"op": cell.op, "datatype": cell.datatype, "local": OPERAND, "result": RESULT, "compare": COMPARE}
    await execute(bench, OPCODES[cell.form], size, **fields)
    new = execute_element(
        cell.op, cell.datatype, old, None if cell.op is Op.FI_ATOMIC_READ else operand,
        compare if cell.form is Form.COMPARE else None,
    )  # fmt: skip
    assert bench.memory[TARGET : TARGET + size] == new, cell
    assert bench.memory[RESULT : RESULT + size] == result, cell


def cells_executed():
    """Of the operations, datatypes and forms asked for, all that exist."""
    forms = bench_parameters()["forms"]
    return [
        cell
        for cell in cells(extensions=True)
        if cell.form in forms and cell.op in PARAMETERS.ops and cell.datatype in PARAMETERS.datatypes
    ]


@cocotb.test()
async def data_are_written_and_read(dut):
    bench = await powered_up(dut)
    sent = random.randbytes(PARAMETERS.payload + 5)
    bench.memory[OPERAND] = sent
    await execute(bench, D_WRITE, len(sent), local=OPERAND)
    assert bench.memory[TARGET : TARGET + len(sent)] == sent
    await execute(bench, D_READ, len(sent), result=RESULT)
    assert bench.memory[RESULT : RESULT + len(sent)] == sent


@cocotb.test()
async def each_operation_is_the_models(dut):
    bench = await powered_up(dut)
    for cell in cells_executed():
        await execute_cell(bench, cell)
