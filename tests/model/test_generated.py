"""The generated files are those that are checked in, and say what was declared.

Covers ``generate/__main__.py``, ``generate/c_header.py``, ``generate/markdown.py``, ``generate/sources.py`` and
``generate/wireshark.py``.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from amoeba_model.generate import generated_files
from amoeba_model.generate.__main__ import main

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "generated"


def test_checked_in_files_are_fresh_and_no_other_file_lies_there() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert on_disk == dict(generated_files())


def test_check_fails_on_a_stale_or_missing_file_and_writing_repairs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "amoeba.h").write_text("stale")
    capsys.readouterr()
    assert main(["--check", str(tmp_path)]) == 1
    assert "amoeba.h is stale" in capsys.readouterr().err
    assert (tmp_path / "amoeba.h").read_text() == "stale"


def test_every_file_says_from_what_it_was_generated() -> None:
    for name, text in generated_files().items():
        assert "Generated from amoeba_model." in text, name


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_c_header_compiles_and_lays_structures_out_as_specified(tmp_path: Path) -> None:
    program = tmp_path / "layout.c"
    program.write_text(
        """
        #include <stddef.h>
        #include "amoeba.h"
        _Static_assert(sizeof(struct amoeba_tx_descriptor) == 64, "descriptor");
        _Static_assert(offsetof(struct amoeba_tx_descriptor, length) == 4, "length");
        _Static_assert(offsetof(struct amoeba_tx_descriptor, peer) == 8, "peer");
        _Static_assert(offsetof(struct amoeba_tx_descriptor, context) == 56, "context");
        _Static_assert(sizeof(struct amoeba_completion) == 32, "completion");
        _Static_assert(offsetof(struct amoeba_completion, status) == 23, "status");
        _Static_assert(offsetof(struct amoeba_completion, flags) == 31, "flags");
        _Static_assert(AMOEBA_CONTEXTS_PID_ON_FEP == 0x64 && AMOEBA_CONTEXTS_PID_ON_FEP_STRIDE == 0x80, "context");
        _Static_assert(offsetof(struct amoeba_tx_descriptor, counter) == 10, "counter");
        _Static_assert(sizeof(struct amoeba_rx_descriptor) == 64, "receive descriptor");
        _Static_assert(offsetof(struct amoeba_rx_descriptor, tag) == 8, "tag");
        _Static_assert(offsetof(struct amoeba_rx_descriptor, least_space) == 48, "least_space");
        _Static_assert(sizeof(struct amoeba_rendezvous) == 32, "rendezvous");
        _Static_assert(AMOEBA_RECEIVE_OPCODE_CANCEL == 4 && AMOEBA_RECEIVE_FLAGS_DIRECTED == 4, "receives");
        _Static_assert(sizeof(struct amoeba_event_counter) == 16, "event counter");
        _Static_assert(offsetof(struct amoeba_event_counter, error) == 8, "errors");
        _Static_assert(sizeof(struct amoeba_event) == 64, "event");
        _Static_assert(offsetof(struct amoeba_event, slot) == 46, "slot");
        _Static_assert(offsetof(struct amoeba_event, source_pdc) == 44, "source_pdc");
        _Static_assert(offsetof(struct amoeba_event, flags) == 63, "event flags");
        _Static_assert(AMOEBA_EVENT_KIND_REMOTE_ATOMIC == 3 && AMOEBA_EVENT_FLAGS_PHASE == 0x80, "event numbers");
        _Static_assert(AMOEBA_UET_PDS_NACK_SIZE == 16 && AMOEBA_UET_PDS_NACK_NACK_PSN_OFFSET == 32, "NACK");
        _Static_assert(AMOEBA_UET_PDS_CONTROL_PAYLOAD_OFFSET == 96, "control packet");
        _Static_assert(AMOEBA_CONTROL_TYPE_CLOSE_COMMAND == 4 && AMOEBA_NACK_CODE_ROD_OOO == 0xd, "PDS numbers");
        _Static_assert(AMOEBA_KEYS_STORE == 0x30 && AMOEBA_DOORBELL_SLOT_RELEASE == 0x18, "registers");
        _Static_assert(AMOEBA_OP_FI_MSWAP == 18 && AMOEBA_ATOMIC_OPCODE_MSWAP == 0x13, "enumerations");
        _Static_assert(AMOEBA_UET_SES_REQUEST_SIZE == 44, "header");
        _Static_assert(AMOEBA_UET_SES_REQUEST_PID_ON_FEP_OFFSET == 68, "pid_on_fep");
        """
    )
    subprocess.run(
        [
            "gcc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            f"-I{FOLDER}",
            "-c",
            program,
            "-o",
            "/dev/null",
        ],
        check=True,
    )


@pytest.mark.parametrize(
    "line",
    [
        '{ name = "psn", start = 4, length = 4,',
        'ProtoField.uint8("amoeba_uet.pds_request.type", "type", base.DEC, enums.PdsType, 0xf8)',
        'ProtoField.uint16("amoeba_uet.pds_request.next_header", "next_header", base.DEC, enums.NextHeader, 0x780)',
        'ProtoField.uint16("amoeba_uet.ses_request.resource_index", "resource_index", base.DEC, nil, 0xfff)',
        'ProtoField.bool("amoeba_uet.pds_request.flags.syn", "SYN", 8, nil, 0x4)',
        'ProtoField.uint8("amoeba_uet.pds_nack.nack_code", "nack_code", base.DEC, enums.NackCode)',
        '"amoeba_uet.pds_control.control_type", "control_type", base.DEC, enums.ControlType, 0x780)',
        'ProtoField.bool("amoeba_uet.pds_control.flags.is_rod", "IS_ROD", 8, nil, 0x20)',
        "local PDS_NACK = 10",
        "local PDS_CONTROL = 11",
        '[28] = "BAD_MKEY",',
        "local atomic_requests = { [3] = true, [4] = true, [13] = true, [14] = true, [48] = true, [49] = true, [50] ",
        'ProtoField.uint16("amoeba_uet.ses_request_part.payload_length", "payload_length", base.DEC, nil, 0x3fff)',
        "local UDP_PORT = 4793",
    ],
)
def test_the_dissector_looks_where_the_specification_says(line: str) -> None:
    assert line in generated_files()["amoeba_uet.lua"]


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("registers.md", "| 0x03030 | `store` | w |  | Store the other values into the slot written here. |"),
        ("descriptors.md", "| 24 | 64 | `remote_key` | Key of the remote region; tag of a tagged message. |"),
        ("descriptors.md", "| 10 | 8 | `counter` | Event counter that the end of the request advances; 0: none. |"),
        ("receives.md", "| 16 | 64 | `ignore` | Bits of the tag that need not match. |"),
        ("receives.md", "| 4 | `CANCEL` | Take back the posted receive with the same ``context``. |"),
        ("receives.md", "| 22 | 16 | `resource_index` | The sender's context that READs go to. |"),
        ("events.md", "| 8 | 64 | `error` | Requests or messages that failed. |"),
        ("completions.md", "| 31 | 8 | `flags` | Phase bit. CompletionFlags. |"),
        ("events.md", "| 63 | 8 | `flags` | Phase bit; what is valid. EventFlags. |"),
        (
            "wire.md",
            "| 4 | 32 | `nack_psn` | The packet to go on from; with ROD_OOO the first that has to come again. |",
        ),
        ("wire.md", "| 4 | `CLOSE_COMMAND` |  |"),
        ("wire.md", "| 8:3.. | 12 | `pid_on_fep` | Addressed process. |"),
        ("ucp.md", "| 5 | 24 | `endpoint` | Receiver's endpoint to the sender that the message is for. |"),
        ("ucp.md", "| 32 | 64 | `length` | Bytes of the data. |"),
        ("ucp.md", "| 3 | `STREAM` | Bytes of a stream. |"),
        ("trace.md", "| 13 | `INTERRUPT` | Interrupt raised. |"),
    ],
)
def test_pages_state_places_and_meanings(page: str, row: str) -> None:
    assert row in generated_files()[page].splitlines()
