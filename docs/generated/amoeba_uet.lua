-- Generated from amoeba_model.wire.uet by python -m amoeba_model.generate; do not edit.
-- Dissects Ultra Ethernet Transport on UDP as Amoeba sends it.

local uet = Proto("amoeba_uet", "Ultra Ethernet Transport (Amoeba)")

local UDP_PORT = 4793
local CRC_SIZE = 4
local PDS_ROD_REQ = 3
local PDS_ACK = 7
local PDS_ACK_CC = 8
local PDS_NACK = 10
local PDS_CONTROL = 11
local START = 1
local NEXT_NONE = 0
local NEXT_REQUEST_STD = 3
local NEXT_RESPONSE = 4
local NEXT_RESPONSE_DATA = 5
local RESPONSE_DEFAULT = 0
local atomic_requests = { [3] = true, [4] = true, [13] = true, [14] = true, [48] = true, [49] = true, [50] = true }

local enums = {
  PdsType = {
    [1] = "TSS",
    [2] = "RUD_REQ",
    [3] = "ROD_REQ",
    [4] = "RUDI_REQ",
    [5] = "RUDI_RESP",
    [6] = "UUD_REQ",
    [7] = "ACK",
    [8] = "ACK_CC",
    [9] = "ACK_CCX",
    [10] = "NACK",
    [11] = "CONTROL",
    [12] = "NACK_CCX",
    [13] = "RUD_CC_REQ",
    [14] = "ROD_CC_REQ",
  },
  NextHeader = {
    [0] = "NONE",
    [1] = "REQUEST_SMALL",
    [2] = "REQUEST_MEDIUM",
    [3] = "REQUEST_STD",
    [4] = "RESPONSE",
    [5] = "RESPONSE_DATA",
    [6] = "RESPONSE_DATA_SMALL",
  },
  ControlType = {
    [0] = "NOOP",
    [1] = "ACK_REQUEST",
    [2] = "CLEAR_COMMAND",
    [3] = "CLEAR_REQUEST",
    [4] = "CLOSE_COMMAND",
    [5] = "CLOSE_REQUEST",
    [6] = "PROBE",
    [7] = "CREDIT",
    [8] = "CREDIT_REQUEST",
    [9] = "NEGOTIATION",
  },
  NackCode = {
    [1] = "TRIMMED",
    [2] = "TRIMMED_LASTHOP",
    [3] = "TRIMMED_ACK",
    [4] = "NO_PDC_AVAIL",
    [5] = "NO_CCC_AVAIL",
    [6] = "NO_BITMAP",
    [7] = "NO_PKT_BUFFER",
    [8] = "NO_GTD_DEL_AVAIL",
    [9] = "NO_SES_MSG_AVAIL",
    [10] = "NO_RESOURCE",
    [11] = "PSN_OOR_WINDOW",
    [13] = "ROD_OOO",
    [14] = "INV_DPDCID",
    [15] = "PDC_HDR_MISMATCH",
    [16] = "CLOSING",
    [17] = "CLOSING_IN_ERR",
    [18] = "PKT_NOT_RCVD",
    [19] = "GTD_RESP_UNAVAIL",
    [20] = "ACK_WITH_DATA",
    [21] = "INVALID_SYN",
    [22] = "PDC_MODE_MISMATCH",
    [23] = "NEW_START_PSN",
    [24] = "RCVD_SES_PROCG",
    [25] = "UNEXP_EVENT",
    [26] = "RCVR_INFER_LOSS",
  },
  RequestOpcode = {
    [0] = "NO_OP",
    [1] = "WRITE",
    [2] = "READ",
    [3] = "ATOMIC",
    [4] = "FETCHING_ATOMIC",
    [5] = "SEND",
    [6] = "RENDEZVOUS_SEND",
    [7] = "DATAGRAM_SEND",
    [8] = "DEFERRABLE_SEND",
    [9] = "TAGGED_SEND",
    [10] = "RENDEZVOUS_TSEND",
    [11] = "DEFERRABLE_TSEND",
    [12] = "READY_TO_RESTART",
    [13] = "TSEND_ATOMIC",
    [14] = "TSEND_FETCH_ATOMIC",
    [15] = "MSG_ERROR",
    [48] = "AMOEBA_COMPARE_ATOMIC",
    [49] = "AMOEBA_ATOMIC",
    [50] = "AMOEBA_FETCHING_ATOMIC",
  },
  ResponseOpcode = {
    [0] = "DEFAULT",
    [1] = "RESPONSE",
    [2] = "WITH_DATA",
    [3] = "NONE",
  },
  ReturnCode = {
    [0] = "NULL",
    [1] = "OK",
    [2] = "BAD_GENERATION",
    [3] = "DISABLED",
    [4] = "DISABLED_GEN",
    [5] = "NO_MATCH",
    [6] = "UNSUPPORTED_OP",
    [7] = "UNSUPPORTED_SIZE",
    [8] = "AT_INVALID",
    [9] = "AT_PERM",
    [10] = "AT_ATS_ERROR",
    [11] = "AT_NO_TRANS",
    [12] = "AT_OUT_OF_RANGE",
    [13] = "HOST_POISONED",
    [14] = "HOST_UNSUCCESS_CMPL",
    [15] = "AMO_UNSUPPORTED_OP",
    [16] = "AMO_UNSUPPORTED_DT",
    [17] = "AMO_UNSUPPORTED_SIZE",
    [18] = "AMO_UNALIGNED",
    [19] = "AMO_FP_NAN",
    [20] = "AMO_FP_UNDERFLOW",
    [21] = "AMO_FP_OVERFLOW",
    [22] = "AMO_FP_INEXACT",
    [23] = "PERM_VIOLATION",
    [24] = "OP_VIOLATION",
    [25] = "BAD_INDEX",
    [26] = "BAD_PID",
    [27] = "BAD_JOB_ID",
    [28] = "BAD_MKEY",
    [29] = "BAD_ADDR",
    [30] = "CANCELLED",
    [31] = "UNDELIVERABLE",
    [32] = "UNCOR",
    [33] = "UNCOR_TRNSNT",
    [34] = "TOO_LONG",
    [35] = "INITIATOR_ERROR",
    [36] = "DROPPED",
    [48] = "LOCAL_BAD_DESCRIPTOR",
    [49] = "LOCAL_BAD_PEER",
    [50] = "LOCAL_DMA_FAULT",
    [51] = "LOCAL_PDC_FAILED",
    [52] = "LOCAL_NIC_RESET",
    [53] = "LOCAL_PEER_PDC_TABLE_FULL",
  },
  AtomicOpcode = {
    [0] = "MIN",
    [1] = "MAX",
    [2] = "SUM",
    [3] = "DIFF",
    [4] = "PROD",
    [5] = "LOR",
    [6] = "LAND",
    [7] = "BOR",
    [8] = "BAND",
    [9] = "LXOR",
    [10] = "BXOR",
    [11] = "READ",
    [12] = "WRITE",
    [13] = "CSWAP",
    [14] = "CSWAP_NE",
    [15] = "CSWAP_LE",
    [16] = "CSWAP_LT",
    [17] = "CSWAP_GE",
    [18] = "CSWAP_GT",
    [19] = "MSWAP",
    [20] = "INVAL",
  },
  AtomicDatatype = {
    [0] = "INT8",
    [1] = "UINT8",
    [2] = "INT16",
    [3] = "UINT16",
    [4] = "INT32",
    [5] = "UINT32",
    [6] = "INT64",
    [7] = "UINT64",
    [8] = "INT128",
    [9] = "UINT128",
    [10] = "FLOAT",
    [11] = "DOUBLE",
    [12] = "FLOAT_COMPLEX",
    [13] = "DOUBLE_COMPLEX",
    [14] = "LONG_DOUBLE",
    [15] = "LONG_DOUBLE_COMPLEX",
    [16] = "BF16",
    [17] = "FP16",
    [224] = "AMOEBA_FLOAT8_E4M3",
    [225] = "AMOEBA_FLOAT8_E5M2",
  },
}

local headers = {
  pds_request = { title = "pds_request", size = 12, fields = {
    { name = "type", start = 0, length = 1,
      divisor = 8, modulus = 32,
      proto = ProtoField.uint8("amoeba_uet.pds_request.type", "type", base.DEC, enums.PdsType, 0xf8),
      flags = {} },
    { name = "next_header", start = 0, length = 2,
      divisor = 128, modulus = 16,
      proto = ProtoField.uint16("amoeba_uet.pds_request.next_header", "next_header", base.DEC, enums.NextHeader, 0x780),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 128,
      proto = ProtoField.uint8("amoeba_uet.pds_request.flags", "flags", base.HEX, nil, 0x7f),
      flags = {
        ProtoField.bool("amoeba_uet.pds_request.flags.retx", "RETX", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.pds_request.flags.ack_request", "ACK_REQUEST", 8, nil, 0x8),
        ProtoField.bool("amoeba_uet.pds_request.flags.syn", "SYN", 8, nil, 0x4),
      } },
    { name = "clear_psn_offset", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_request.clear_psn_offset", "clear_psn_offset", base.DEC, nil),
      flags = {} },
    { name = "psn", start = 4, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_request.psn", "psn", base.DEC, nil),
      flags = {} },
    { name = "spdcid", start = 8, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_request.spdcid", "spdcid", base.DEC, nil),
      flags = {} },
    { name = "dpdcid", start = 10, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_request.dpdcid", "dpdcid", base.DEC, nil),
      flags = {} },
  } },
  pds_ack = { title = "pds_ack", size = 12, fields = {
    { name = "type", start = 0, length = 1,
      divisor = 8, modulus = 32,
      proto = ProtoField.uint8("amoeba_uet.pds_ack.type", "type", base.DEC, enums.PdsType, 0xf8),
      flags = {} },
    { name = "next_header", start = 0, length = 2,
      divisor = 128, modulus = 16,
      proto = ProtoField.uint16("amoeba_uet.pds_ack.next_header", "next_header", base.DEC, enums.NextHeader, 0x780),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 128,
      proto = ProtoField.uint8("amoeba_uet.pds_ack.flags", "flags", base.HEX, nil, 0x7f),
      flags = {
        ProtoField.bool("amoeba_uet.pds_ack.flags.marked", "MARKED", 8, nil, 0x20),
        ProtoField.bool("amoeba_uet.pds_ack.flags.retx", "RETX", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.pds_ack.flags.request_clear", "REQUEST_CLEAR", 8, nil, 0x2),
      } },
    { name = "ack_psn_offset", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_ack.ack_psn_offset", "ack_psn_offset", base.DEC, nil),
      flags = {} },
    { name = "cack_psn", start = 4, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_ack.cack_psn", "cack_psn", base.DEC, nil),
      flags = {} },
    { name = "spdcid", start = 8, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_ack.spdcid", "spdcid", base.DEC, nil),
      flags = {} },
    { name = "dpdcid", start = 10, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_ack.dpdcid", "dpdcid", base.DEC, nil),
      flags = {} },
  } },
  pds_nack = { title = "pds_nack", size = 16, fields = {
    { name = "type", start = 0, length = 1,
      divisor = 8, modulus = 32,
      proto = ProtoField.uint8("amoeba_uet.pds_nack.type", "type", base.DEC, enums.PdsType, 0xf8),
      flags = {} },
    { name = "next_header", start = 0, length = 2,
      divisor = 128, modulus = 16,
      proto = ProtoField.uint16("amoeba_uet.pds_nack.next_header", "next_header", base.DEC, enums.NextHeader, 0x780),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 128,
      proto = ProtoField.uint8("amoeba_uet.pds_nack.flags", "flags", base.HEX, nil, 0x7f),
      flags = {
        ProtoField.bool("amoeba_uet.pds_nack.flags.marked", "MARKED", 8, nil, 0x20),
        ProtoField.bool("amoeba_uet.pds_nack.flags.retx", "RETX", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.pds_nack.flags.request_clear", "REQUEST_CLEAR", 8, nil, 0x2),
      } },
    { name = "nack_code", start = 2, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.pds_nack.nack_code", "nack_code", base.DEC, enums.NackCode),
      flags = {} },
    { name = "vendor_code", start = 3, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.pds_nack.vendor_code", "vendor_code", base.DEC, nil),
      flags = {} },
    { name = "nack_psn", start = 4, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_nack.nack_psn", "nack_psn", base.DEC, nil),
      flags = {} },
    { name = "spdcid", start = 8, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_nack.spdcid", "spdcid", base.DEC, nil),
      flags = {} },
    { name = "dpdcid", start = 10, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_nack.dpdcid", "dpdcid", base.DEC, nil),
      flags = {} },
    { name = "payload", start = 12, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_nack.payload", "payload", base.DEC, nil),
      flags = {} },
  } },
  pds_control = { title = "pds_control", size = 16, fields = {
    { name = "type", start = 0, length = 1,
      divisor = 8, modulus = 32,
      proto = ProtoField.uint8("amoeba_uet.pds_control.type", "type", base.DEC, enums.PdsType, 0xf8),
      flags = {} },
    { name = "control_type", start = 0, length = 2,
      divisor = 128, modulus = 16,
      proto = ProtoField.uint16("amoeba_uet.pds_control.control_type", "control_type", base.DEC, enums.ControlType, 0x780),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 128,
      proto = ProtoField.uint8("amoeba_uet.pds_control.flags", "flags", base.HEX, nil, 0x7f),
      flags = {
        ProtoField.bool("amoeba_uet.pds_control.flags.is_rod", "IS_ROD", 8, nil, 0x20),
        ProtoField.bool("amoeba_uet.pds_control.flags.retx", "RETX", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.pds_control.flags.ack_request", "ACK_REQUEST", 8, nil, 0x8),
        ProtoField.bool("amoeba_uet.pds_control.flags.syn", "SYN", 8, nil, 0x4),
      } },
    { name = "probe_opaque", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_control.probe_opaque", "probe_opaque", base.DEC, nil),
      flags = {} },
    { name = "psn", start = 4, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_control.psn", "psn", base.DEC, nil),
      flags = {} },
    { name = "spdcid", start = 8, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_control.spdcid", "spdcid", base.DEC, nil),
      flags = {} },
    { name = "dpdcid", start = 10, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.pds_control.dpdcid", "dpdcid", base.DEC, nil),
      flags = {} },
    { name = "payload", start = 12, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.pds_control.payload", "payload", base.DEC, nil),
      flags = {} },
  } },
  congestion_state = { title = "congestion_state", size = 20, fields = {
    { name = "cc_type", start = 0, length = 1,
      divisor = 16, modulus = 16,
      proto = ProtoField.uint8("amoeba_uet.congestion_state.cc_type", "cc_type", base.DEC, nil, 0xf0),
      flags = {} },
    { name = "cc_flags", start = 0, length = 1,
      divisor = 1, modulus = 16,
      proto = ProtoField.uint8("amoeba_uet.congestion_state.cc_flags", "cc_flags", base.DEC, nil, 0xf),
      flags = {} },
    { name = "mpr", start = 1, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.congestion_state.mpr", "mpr", base.DEC, nil),
      flags = {} },
    { name = "sack_psn_offset", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.congestion_state.sack_psn_offset", "sack_psn_offset", base.DEC, nil),
      flags = {} },
    { name = "sack_bitmap", start = 4, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.congestion_state.sack_bitmap", "sack_bitmap", base.HEX, nil),
      flags = {} },
    { name = "ack_cc_state", start = 12, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.congestion_state.ack_cc_state", "ack_cc_state", base.HEX, nil),
      flags = {} },
  } },
  ses_request = { title = "ses_request", size = 44, fields = {
    { name = "opcode", start = 0, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_request.opcode", "opcode", base.DEC, enums.RequestOpcode, 0x3f),
      flags = {} },
    { name = "version", start = 1, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_request.version", "version", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_request.flags", "flags", base.HEX, nil, 0x3f),
      flags = {
        ProtoField.bool("amoeba_uet.ses_request.flags.delivery_complete", "DELIVERY_COMPLETE", 8, nil, 0x20),
        ProtoField.bool("amoeba_uet.ses_request.flags.initiator_error", "INITIATOR_ERROR", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.ses_request.flags.relative", "RELATIVE", 8, nil, 0x8),
        ProtoField.bool("amoeba_uet.ses_request.flags.header_data", "HEADER_DATA", 8, nil, 0x4),
        ProtoField.bool("amoeba_uet.ses_request.flags.end_of_message", "END_OF_MESSAGE", 8, nil, 0x2),
        ProtoField.bool("amoeba_uet.ses_request.flags.start_of_message", "START_OF_MESSAGE", 8, nil, 0x1),
      } },
    { name = "message_id", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.ses_request.message_id", "message_id", base.DEC, nil),
      flags = {} },
    { name = "ri_generation", start = 4, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.ses_request.ri_generation", "ri_generation", base.DEC, nil),
      flags = {} },
    { name = "job_id", start = 5, length = 3,
      divisor = 1, modulus = 16777216,
      proto = ProtoField.uint24("amoeba_uet.ses_request.job_id", "job_id", base.DEC, nil),
      flags = {} },
    { name = "pid_on_fep", start = 8, length = 2,
      divisor = 1, modulus = 4096,
      proto = ProtoField.uint16("amoeba_uet.ses_request.pid_on_fep", "pid_on_fep", base.DEC, nil, 0xfff),
      flags = {} },
    { name = "resource_index", start = 10, length = 2,
      divisor = 1, modulus = 4096,
      proto = ProtoField.uint16("amoeba_uet.ses_request.resource_index", "resource_index", base.DEC, nil, 0xfff),
      flags = {} },
    { name = "buffer_offset", start = 12, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.ses_request.buffer_offset", "buffer_offset", base.HEX, nil),
      flags = {} },
    { name = "initiator", start = 20, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_request.initiator", "initiator", base.DEC, nil),
      flags = {} },
    { name = "memory_key", start = 24, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.ses_request.memory_key", "memory_key", base.HEX, nil),
      flags = {} },
    { name = "header_data", start = 32, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.ses_request.header_data", "header_data", base.HEX, nil),
      flags = {} },
    { name = "request_length", start = 40, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_request.request_length", "request_length", base.DEC, nil),
      flags = {} },
  } },
  ses_request_part = { title = "ses_request_part", size = 44, fields = {
    { name = "opcode", start = 0, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_request_part.opcode", "opcode", base.DEC, enums.RequestOpcode, 0x3f),
      flags = {} },
    { name = "version", start = 1, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_request_part.version", "version", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "flags", start = 1, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_request_part.flags", "flags", base.HEX, nil, 0x3f),
      flags = {
        ProtoField.bool("amoeba_uet.ses_request_part.flags.delivery_complete", "DELIVERY_COMPLETE", 8, nil, 0x20),
        ProtoField.bool("amoeba_uet.ses_request_part.flags.initiator_error", "INITIATOR_ERROR", 8, nil, 0x10),
        ProtoField.bool("amoeba_uet.ses_request_part.flags.relative", "RELATIVE", 8, nil, 0x8),
        ProtoField.bool("amoeba_uet.ses_request_part.flags.header_data", "HEADER_DATA", 8, nil, 0x4),
        ProtoField.bool("amoeba_uet.ses_request_part.flags.end_of_message", "END_OF_MESSAGE", 8, nil, 0x2),
        ProtoField.bool("amoeba_uet.ses_request_part.flags.start_of_message", "START_OF_MESSAGE", 8, nil, 0x1),
      } },
    { name = "message_id", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.ses_request_part.message_id", "message_id", base.DEC, nil),
      flags = {} },
    { name = "ri_generation", start = 4, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.ses_request_part.ri_generation", "ri_generation", base.DEC, nil),
      flags = {} },
    { name = "job_id", start = 5, length = 3,
      divisor = 1, modulus = 16777216,
      proto = ProtoField.uint24("amoeba_uet.ses_request_part.job_id", "job_id", base.DEC, nil),
      flags = {} },
    { name = "pid_on_fep", start = 8, length = 2,
      divisor = 1, modulus = 4096,
      proto = ProtoField.uint16("amoeba_uet.ses_request_part.pid_on_fep", "pid_on_fep", base.DEC, nil, 0xfff),
      flags = {} },
    { name = "resource_index", start = 10, length = 2,
      divisor = 1, modulus = 4096,
      proto = ProtoField.uint16("amoeba_uet.ses_request_part.resource_index", "resource_index", base.DEC, nil, 0xfff),
      flags = {} },
    { name = "buffer_offset", start = 12, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.ses_request_part.buffer_offset", "buffer_offset", base.HEX, nil),
      flags = {} },
    { name = "initiator", start = 20, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_request_part.initiator", "initiator", base.DEC, nil),
      flags = {} },
    { name = "memory_key", start = 24, length = 8,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint64("amoeba_uet.ses_request_part.memory_key", "memory_key", base.HEX, nil),
      flags = {} },
    { name = "payload_length", start = 34, length = 2,
      divisor = 1, modulus = 16384,
      proto = ProtoField.uint16("amoeba_uet.ses_request_part.payload_length", "payload_length", base.DEC, nil, 0x3fff),
      flags = {} },
    { name = "message_offset", start = 36, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_request_part.message_offset", "message_offset", base.DEC, nil),
      flags = {} },
    { name = "request_length", start = 40, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_request_part.request_length", "request_length", base.DEC, nil),
      flags = {} },
  } },
  atomic_extension = { title = "atomic_extension", size = 4, fields = {
    { name = "opcode", start = 0, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.atomic_extension.opcode", "opcode", base.DEC, enums.AtomicOpcode),
      flags = {} },
    { name = "datatype", start = 1, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.atomic_extension.datatype", "datatype", base.DEC, enums.AtomicDatatype),
      flags = {} },
    { name = "semantic_control", start = 2, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.atomic_extension.semantic_control", "semantic_control", base.HEX, nil),
      flags = {
        ProtoField.bool("amoeba_uet.atomic_extension.semantic_control.cacheable", "CACHEABLE", 8, nil, 0x1),
        ProtoField.bool("amoeba_uet.atomic_extension.semantic_control.cpu_coherent", "CPU_COHERENT", 8, nil, 0x2),
        ProtoField.bool("amoeba_uet.atomic_extension.semantic_control.amoeba_cswap_by_bits", "AMOEBA_CSWAP_BY_BITS", 8, nil, 0x80),
      } },
  } },
  ses_response = { title = "ses_response", size = 12, fields = {
    { name = "list", start = 0, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_response.list", "list", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "opcode", start = 0, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_response.opcode", "opcode", base.DEC, enums.ResponseOpcode, 0x3f),
      flags = {} },
    { name = "version", start = 1, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_response.version", "version", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "return_code", start = 1, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_response.return_code", "return_code", base.DEC, enums.ReturnCode, 0x3f),
      flags = {} },
    { name = "message_id", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.ses_response.message_id", "message_id", base.DEC, nil),
      flags = {} },
    { name = "ri_generation", start = 4, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.ses_response.ri_generation", "ri_generation", base.DEC, nil),
      flags = {} },
    { name = "job_id", start = 5, length = 3,
      divisor = 1, modulus = 16777216,
      proto = ProtoField.uint24("amoeba_uet.ses_response.job_id", "job_id", base.DEC, nil),
      flags = {} },
    { name = "modified_length", start = 8, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_response.modified_length", "modified_length", base.DEC, nil),
      flags = {} },
  } },
  ses_response_data = { title = "ses_response_data", size = 20, fields = {
    { name = "list", start = 0, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_response_data.list", "list", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "opcode", start = 0, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_response_data.opcode", "opcode", base.DEC, enums.ResponseOpcode, 0x3f),
      flags = {} },
    { name = "version", start = 1, length = 1,
      divisor = 64, modulus = 4,
      proto = ProtoField.uint8("amoeba_uet.ses_response_data.version", "version", base.DEC, nil, 0xc0),
      flags = {} },
    { name = "return_code", start = 1, length = 1,
      divisor = 1, modulus = 64,
      proto = ProtoField.uint8("amoeba_uet.ses_response_data.return_code", "return_code", base.DEC, enums.ReturnCode, 0x3f),
      flags = {} },
    { name = "message_id", start = 2, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.ses_response_data.message_id", "message_id", base.DEC, nil),
      flags = {} },
    { name = "ri_generation", start = 4, length = 1,
      divisor = 1, modulus = 256,
      proto = ProtoField.uint8("amoeba_uet.ses_response_data.ri_generation", "ri_generation", base.DEC, nil),
      flags = {} },
    { name = "job_id", start = 5, length = 3,
      divisor = 1, modulus = 16777216,
      proto = ProtoField.uint24("amoeba_uet.ses_response_data.job_id", "job_id", base.DEC, nil),
      flags = {} },
    { name = "read_request_message_id", start = 8, length = 2,
      divisor = 1, modulus = 65536,
      proto = ProtoField.uint16("amoeba_uet.ses_response_data.read_request_message_id", "read_request_message_id", base.DEC, nil),
      flags = {} },
    { name = "payload_length", start = 10, length = 2,
      divisor = 1, modulus = 16384,
      proto = ProtoField.uint16("amoeba_uet.ses_response_data.payload_length", "payload_length", base.DEC, nil, 0x3fff),
      flags = {} },
    { name = "modified_length", start = 12, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_response_data.modified_length", "modified_length", base.DEC, nil),
      flags = {} },
    { name = "message_offset", start = 16, length = 4,
      divisor = 1, modulus = 4294967296,
      proto = ProtoField.uint32("amoeba_uet.ses_response_data.message_offset", "message_offset", base.DEC, nil),
      flags = {} },
  } },
}
local pds_headers = { [PDS_ROD_REQ] = headers.pds_request, [PDS_ACK] = headers.pds_ack, [PDS_ACK_CC] = headers.pds_ack, [PDS_NACK] = headers.pds_nack, [PDS_CONTROL] = headers.pds_control }

local payload_field = ProtoField.bytes("amoeba_uet.payload", "payload")
local crc_field = ProtoField.uint32("amoeba_uet.crc", "crc", base.HEX)
local all = { payload_field, crc_field }
for _, header in pairs(headers) do
  for _, field in ipairs(header.fields) do
    all[#all + 1] = field.proto
    for _, flag in ipairs(field.flags) do
      all[#all + 1] = flag
    end
  end
end
uet.fields = all

-- Adds the fields of one header to the tree; returns its values and the offset behind it.
-- A header that is cut off adds nothing and returns nil.
local function add_header(tree, tvb, offset, header)
  if tvb:len() < offset + header.size then
    return nil
  end
  local branch = tree:add(uet, tvb(offset, header.size), header.title)
  local values = {}
  for _, field in ipairs(header.fields) do
    local range = tvb(offset + field.start, field.length)
    branch:add(field.proto, range)
    if field.length <= 4 then
      values[field.name] = math.floor(range:uint() / field.divisor) % field.modulus
    end
    for _, flag in ipairs(field.flags) do
      branch:add(flag, range)
    end
  end
  return values, offset + header.size
end

local function name_of(names, value)
  return names[value] or string.format("unknown 0x%x", value)
end

local function dissect_request(tree, tvb, offset)
  local values
  local header = headers.ses_request
  if tvb:len() > offset + 1 and tvb(offset + 1, 1):uint() % 2 < START then
    header = headers.ses_request_part
  end
  values, offset = add_header(tree, tvb, offset, header)
  if values == nil then
    return nil
  end
  local text = name_of(enums.RequestOpcode, values.opcode)
  if atomic_requests[values.opcode] then
    local atomic
    atomic, offset = add_header(tree, tvb, offset, headers.atomic_extension)
    if atomic == nil then
      return nil
    end
    text = text .. " " .. name_of(enums.AtomicOpcode, atomic.opcode)
      .. " " .. name_of(enums.AtomicDatatype, atomic.datatype)
  end
  return text, offset
end

local function dissect_response(tree, tvb, offset, header)
  local values
  values, offset = add_header(tree, tvb, offset, header)
  if values == nil then
    return nil
  end
  local text = name_of(enums.ReturnCode, values.return_code)
  if values.opcode == RESPONSE_DEFAULT then
    text = "by default"
  end
  return text, offset
end

-- The packet that a PDS header speaks about.
local function psn_of(kind, values)
  if kind ~= PDS_ACK then
    return values.psn or values.nack_psn
  end
  local offset = values.ack_psn_offset
  if offset >= 32768 then
    offset = offset - 65536
  end
  return (values.cack_psn + offset) % 4294967296
end

function uet.dissector(tvb, pinfo, tree)
  if tvb:len() < 2 then
    return 0
  end
  local prologue = tvb(0, 2):uint()
  local kind = math.floor(prologue / 2048)
  local next_header = math.floor(prologue / 128) % 16
  pinfo.cols.protocol = "UET"
  local root = tree:add(uet, tvb(), "Ultra Ethernet Transport")
  local info = name_of(enums.PdsType, kind)
  local values, offset, text
  if pds_headers[kind] then
    values, offset = add_header(root, tvb, 0, pds_headers[kind])
  end
  if values and kind == PDS_ACK_CC then
    kind = PDS_ACK
    local state
    state, offset = add_header(root, tvb, offset, headers.congestion_state)
    values = state and values
  end
  if values == nil then
    pinfo.cols.info = info
    return tvb:len()
  end
  info = info .. " psn " .. string.format("%.0f", psn_of(kind, values))
  if kind == PDS_ROD_REQ and next_header == NEXT_REQUEST_STD then
    text, offset = dissect_request(root, tvb, offset)
  elseif kind == PDS_ROD_REQ and next_header == NEXT_RESPONSE_DATA then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response_data)
    text = text and "data in the return direction " .. text
  elseif kind == PDS_ACK and next_header == NEXT_RESPONSE then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response)
  elseif kind == PDS_ACK and next_header == NEXT_RESPONSE_DATA then
    text, offset = dissect_response(root, tvb, offset, headers.ses_response_data)
  elseif kind == PDS_ACK and next_header == NEXT_NONE then
    text = "without a response"
  elseif kind == PDS_NACK then
    text = name_of(enums.NackCode, values.nack_code)
  elseif kind == PDS_CONTROL then
    text = name_of(enums.ControlType, values.control_type)
  end
  pinfo.cols.info = info .. (text and (" " .. text) or "")
  if text == nil then
    return tvb:len()
  end
  local rest = tvb:len() - offset - CRC_SIZE
  if rest > 0 then
    root:add(payload_field, tvb(offset, rest))
  end
  if rest >= 0 then
    root:add_le(crc_field, tvb(offset + rest, CRC_SIZE))
  end
  return tvb:len()
end

DissectorTable.get("udp.port"):add(UDP_PORT, uet)
