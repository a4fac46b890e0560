"""Testbench of the whole initiator: random programs against the model's.

Parameters: ``data_width``, ``window``.

Covers ``initiator/peer_table.py``, ``initiator/packetizer.py``, ``initiator/packet_numberer.py``,
``initiator/packet_buffer.py``, ``initiator/retransmitter.py``, ``initiator/operand_stage.py`` and
``initiator/result_order.py``.
"""

import collections
import random

import cocotb
from amoeba_model.nic.first_psns import first_psn
from cocotb.triggers import ClockCycles

from tests.hw.initiator.environment import PSN_KEY, TARGET_PDC
from tests.hw.initiator.programs import check_outcomes, model_frames, per_pdc, run_random_programs
from tests.hw.initiator.setup import OK, PACES, PARAMETERS, as_it_comes, peer, registers, started


def check_timed_fields(frames, peers):
    """Every packet's SYN and clear_psn_offset agree with some number of answers that never falls."""
    answered = collections.Counter()
    starts = {index: fields["initial_psn"] for index, fields in peers.items()}
    for header, _ in frames:
        pdc = header["spdcid"]
        offset = (header["psn"] - starts[pdc]) & 0xFFFF_FFFF
        done = (offset + header["clear_psn_offset"] + 1) & 0xFFFF
        assert answered[pdc] <= done <= offset
        assert offset - done < PARAMETERS.window
        assert header["syn"] == (done == 0)
        assert header["dpdcid"] == (offset if header["syn"] else pdc + TARGET_PDC)
        answered[pdc] = done
        if header["is_control"]:
            # Everything before a CLOSE has been answered, and it is, too, before anything else goes.
            assert done == offset
            answered[pdc] = 0
            starts[pdc] = first_psn(PSN_KEY, pdc, (header["psn"] + 1) & 0xFFFF_FFFF)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(pace=list(PACES), count=[60])
async def random_programs_do_what_the_model_does(dut, pace, count):
    environment = await started(dut, as_it_comes, pace=PACES[pace])
    model, peers = await run_random_programs(dut, environment, as_it_comes, count)
    await environment.completed(len(model.completions))
    limit = environment.cycle + 20_000
    while environment.counts["count_responses_received"] < len(model.frames):
        await ClockCycles(dut.clk, 1)
        assert environment.cycle < limit
    await ClockCycles(dut.clk, 100)

    assert per_pdc(environment.frames) == model_frames(model)
    check_timed_fields(environment.frames, peers)

    check_outcomes(environment, model)
    counts = environment.counts
    assert counts["count_descriptors"] == 3 * count
    assert counts["count_completions"] == len(model.completions)
    assert counts["count_error_completions"] == sum(entry["status"] != OK for entry in model.completions)
    assert counts["count_requests_sent"] == len(model.frames)
    assert counts["count_dropped_response"] == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_hand_typed_descriptor_becomes_this_frame_and_this_completion(dut):
    environment = await started(dut)
    environment.set_context(1, **registers(1, cswap_by_bits=1))
    environment.store_peer(5, **peer(5, 1, initial_psn=0x1000))
    await environment.peer_stores.sent()
    fetch_add = bytes.fromhex(
        "04 02 07 03 08000000"  # FETCH_ATOMIC, FI_SUM, FI_UINT64, COMPLETION | INLINE, 8 bytes
        "0500 2a 00 00000000"  # peer, event counter
        "8877665544332211"  # remote address
        "0df0adba00000000"  # remote key
        "2a00000000000000"  # operand 42
        "1000000004000000"  # result
        "0000000000000000"
        "efcdab8967452301"  # context
    )
    environment.post(1, 0, [fetch_add])
    await environment.completed(1)
    ((header, payload),) = environment.frames
    del header["cycle"]
    assert header == {
        "mac": 0x02_00_00_00_00_15,
        "ip": 0x0A00_0015,
        "port": 0xC005,
        "is_request": 1,
        "is_control": 0,
        "clears": 0,
        "asks": 0,
        "retx": 0,
        "marked": 0,
        "returns": 0,
        "wants_clear": 0,
        "mpr": 0,
        "nack_code": 0,
        "missing": 0,
        "cack_psn": 0,
        "psn": 0x1000,
        "clear_psn_offset": 0xFFFF,
        "spdcid": 5,
        "dpdcid": 0,
        "syn": 1,
        "opcode": 4,
        "version": 0,
        "flags": 0x2B,
        "message_id": 0,
        "job_id": 0x123405,
        "pid_on_fep": 0x125,
        "resource_index": 0x345,
        "buffer_offset": 0x1122334455667788,
        "initiator": 0x565,
        "memory_key": 0xBAADF00D,
        "header_data": 0,
        "ri_generation": 0,
        "request_length": 8,
        "atomic_opcode": 2,
        "atomic_datatype": 7,
        "semantic_control": 0x80,
        "return_code": 0,
        "modified_length": 0,
        "payload_length": 8,
    }
    assert payload == bytes.fromhex("000000000000002a")
    assert environment.memory.peek(0x4_0000_0010, 8) == random.Random(0x1000).randbytes(8)[::-1]
    ((context, index, completion),) = environment.completions
    del completion["cycle"]
    assert (context, index) == (1, 0)
    await environment.requests_counted(1)
    assert [(counter, error) for counter, error, _ in environment.counted] == [(42, 0)]
    assert completion == {
        "context": 0x0123456789ABCDEF,
        "data": 0,
        "length": 8,
        "descriptor": 0,
        "opcode": 4,
        "status": 1,
        "reserved0": 0,
        "reserved1": 0,
        "reserved2": 0,
        "flags": 0x80,
    }
