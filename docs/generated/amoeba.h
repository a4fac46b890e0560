/* Generated from amoeba_model.registers, amoeba_model.descriptors, amoeba_model.trace, amoeba_model.opcodes, amoeba_model.ucp, amoeba_model.wire.uet by python -m amoeba_model.generate; do not edit. */

#ifndef AMOEBA_H
#define AMOEBA_H

#include <stdint.h>

/* The BAR: a linked list of register blocks, then one doorbell page per context; 32-bit registers. */
#define AMOEBA_ABI_VERSION 9
#define AMOEBA_BAR_SIZE 0x40000
#define AMOEBA_DOORBELL_PAGE 0x20000
#define AMOEBA_DOORBELL_PAGE_SIZE 0x01000
#define AMOEBA_KEY_PROBES 8

/* Registers of a doorbell page, from its start. */
#define AMOEBA_DOORBELL_TRANSMIT_TAIL 0x000 /* W: Producer index of the transmit ring (16 bits): the doorbell. Like the next two, ignored by a NIC without initiator. */
#define AMOEBA_DOORBELL_COMPLETION_HEAD 0x004 /* W: Consumer index of the completion ring (16 bits). */
#define AMOEBA_DOORBELL_ARM 0x008 /* W: Raise the context's interrupt once at the next completion whose index is the one written or later (16 bits); at once if it has been written already. */
#define AMOEBA_DOORBELL_EVENT_HEAD 0x00c /* W: Consumer index of the event ring (16 bits). Like the next one, ignored by a NIC without event rings. */
#define AMOEBA_DOORBELL_EVENT_ARM 0x010 /* W: As arm, for the event ring; the same interrupt. */
#define AMOEBA_DOORBELL_RECEIVE_TAIL 0x014 /* W: Producer index of the receive ring (16 bits): the doorbell. Like the next one, ignored by a NIC without messages. */
#define AMOEBA_DOORBELL_SLOT_RELEASE 0x018 /* W: Number of an unexpected slot that the driver is done with (16 bits). */

/* Every block begins with these; offsets below are from the start of the block. */
#define AMOEBA_BLOCK_TYPE 0x000 /* R: Type number of the block. */
#define AMOEBA_BLOCK_VERSION 0x004 /* R: Version of the block. */
#define AMOEBA_BLOCK_LENGTH 0x008 /* R: Bytes of the block. */
#define AMOEBA_BLOCK_NEXT 0x00c /* R: BAR offset of the next block; 0 in the last one. */

/* Identity and parameters of the NIC, and its own network address. */
#define AMOEBA_DEVICE_TYPE 0x414d0001
#define AMOEBA_DEVICE_VERSION 1
#define AMOEBA_DEVICE_ABI_VERSION 0x010 /* R: ABI of registers, descriptors and completions. */
#define AMOEBA_DEVICE_DATA_WIDTH 0x014 /* R: Bits per beat of the datapath. */
#define AMOEBA_DEVICE_CONTEXTS 0x018 /* R: Endpoint contexts. */
#define AMOEBA_DEVICE_KEYS 0x01c /* R: Slots of the key table. */
#define AMOEBA_DEVICE_PEERS 0x020 /* R: Entries of the peer table; 0: the NIC has no initiator, and no such table. */
#define AMOEBA_DEVICE_WINDOW 0x024 /* R: Unacknowledged request packets per peer. */
#define AMOEBA_DEVICE_PAYLOAD 0x028 /* R: Most payload bytes per frame. */
#define AMOEBA_DEVICE_CLOCK_HZ 0x02c /* R: Frequency of the NIC's clock in Hz. */
#define AMOEBA_DEVICE_TARGET_PDCS 0x03c /* R: Packet delivery contexts kept for initiators elsewhere. */
#define AMOEBA_DEVICE_RETRANSMIT_TIMEOUT 0x040 /* RW: Cycles without progress until packets are sent again; doubles from timeout to timeout, five times. */
#define AMOEBA_DEVICE_RETRANSMIT_LIMIT 0x044 /* RW: Timeouts in a row after which a PDC is given up. */
#define AMOEBA_DEVICE_ANSWER_BASE_LOW 0x048 /* RW: Answer memory: target_pdcs * window * payload bytes of host memory, or 0: none; a multiple of 64: lower bits stay zero. */
#define AMOEBA_DEVICE_ANSWER_BASE_HIGH 0x04c /* RW: The same, high half. */
#define AMOEBA_DEVICE_RECEIVES 0x050 /* R: Receives that may be posted, per context; 0: the NIC refuses messages. */
#define AMOEBA_DEVICE_UNEXPECTED 0x054 /* R: Unexpected slots, per context. */
#define AMOEBA_DEVICE_EVENT_COUNTERS 0x058 /* R: Event counters, number 0 (none) included. */
#define AMOEBA_DEVICE_COUNTER_BASE_LOW 0x05c /* RW: Event counters: event_counters * 16 bytes of host memory, or 0: not written; a multiple of 64: lower bits stay zero. */
#define AMOEBA_DEVICE_COUNTER_BASE_HIGH 0x060 /* RW: The same, high half. */
#define AMOEBA_DEVICE_COUNTER_CLEAR 0x064 /* W: Set the event counter written here (8 bits) to zero; descriptors of all contexts may advance it. */
#define AMOEBA_DEVICE_COUNTER_CONTEXTS 0x068 /* RW: Contexts, a bit each, for counter_admit. */
#define AMOEBA_DEVICE_COUNTER_ADMIT 0x06c /* W: From now on only descriptors of counter_contexts advance the event counter written here (8 bits). */
#define AMOEBA_DEVICE_DSCP 0x070 /* RW: DSCP in the IP header of requests (6 bits). Answers and NACKs have 46. */
#define AMOEBA_DEVICE_PSN_KEY 0x074 /* RW: Key of the first psns of PDCs that the NIC opens again, of 96 bits; the first word is the most significant. Random, and anew whenever a driver opens the NIC. */
#define AMOEBA_DEVICE_PSN_KEY_STRIDE 0x004
#define AMOEBA_DEVICE_CYCLES_LOW 0x080 /* R: Cycles since reset. Its halves are read one after the other. */
#define AMOEBA_DEVICE_CYCLES_HIGH 0x084 /* R: The same, high half. */
#define AMOEBA_DEVICE_DRAIN 0x088 /* W: Drain the target: see draining. Earlier register writes, such as those that withdraw a key or disable a context, take effect first. The value is ignored. */
#define AMOEBA_DEVICE_DRAINING 0x08c /* R: 1 from a write of drain until all requests that the target had accepted by then have ended, with their reads and writes of host memory, events and reads of receive descriptors; else 0. */
#define AMOEBA_DEVICE_EVENT_RINGS 0x090 /* R: 1: contexts may have event rings; 0: the NIC refuses immediate data. */
#define AMOEBA_DEVICE_RETURN_DATA 0x094 /* R: 1: the target can send data of READs in the return direction; 0: all data is in ACKs. */
#define AMOEBA_DEVICE_MAX_ACK_DATA 0x098 /* RW: Maximum bytes of data of a READ in an ACK, at least 16; the target sends longer data in the return direction. Ignored without return_data, or without an answer memory. */
#define AMOEBA_DEVICE_MAC_LOW 0x030 /* RW: Own MAC address, bytes 5 (least significant) to 2. */
#define AMOEBA_DEVICE_MAC_HIGH 0x034 /* RW: Own MAC address, bytes 1 (least significant) and 0. */
#define AMOEBA_DEVICE_IP 0x038 /* RW: Own IPv4 address. */

/* Atomics that this build executes; index = libfabric's operation number (20 used). */
#define AMOEBA_ATOMICS_TYPE 0x414d0002
#define AMOEBA_ATOMICS_VERSION 1
#define AMOEBA_ATOMICS_BASE 0x020 /* R: Per operation, the datatypes (bit = libfabric's number) of fi_atomic. */
#define AMOEBA_ATOMICS_BASE_STRIDE 0x004
#define AMOEBA_ATOMICS_FETCH 0x0a0 /* R: Per operation, the datatypes (bit = libfabric's number) of fi_fetch_atomic. */
#define AMOEBA_ATOMICS_FETCH_STRIDE 0x004
#define AMOEBA_ATOMICS_COMPARE 0x120 /* R: Per operation, the datatypes (bit = libfabric's number) of fi_compare_atomic. */
#define AMOEBA_ATOMICS_COMPARE_STRIDE 0x004

/* Endpoint contexts: rings, domain, UET identity. */
#define AMOEBA_CONTEXTS_TYPE 0x414d0003
#define AMOEBA_CONTEXTS_VERSION 1
#define AMOEBA_CONTEXTS_CONTROL 0x040 /* RW: Enable and options: ContextControl. */
#define AMOEBA_CONTEXTS_CONTROL_STRIDE 0x080
#define AMOEBA_CONTEXTS_TRANSMIT_BASE_LOW 0x044 /* RW: Address of the transmit ring, low half; a multiple of 64: lower bits stay zero. */
#define AMOEBA_CONTEXTS_TRANSMIT_BASE_LOW_STRIDE 0x080
#define AMOEBA_CONTEXTS_TRANSMIT_BASE_HIGH 0x048 /* RW: Address of the transmit ring, high half. */
#define AMOEBA_CONTEXTS_TRANSMIT_BASE_HIGH_STRIDE 0x080
#define AMOEBA_CONTEXTS_TRANSMIT_SIZE 0x04c /* RW: log2 of the transmit ring's entries, 0 to 15. */
#define AMOEBA_CONTEXTS_TRANSMIT_SIZE_STRIDE 0x080
#define AMOEBA_CONTEXTS_COMPLETION_BASE_LOW 0x050 /* RW: Address of the completion ring, low half; a multiple of 64: lower bits stay zero. */
#define AMOEBA_CONTEXTS_COMPLETION_BASE_LOW_STRIDE 0x080
#define AMOEBA_CONTEXTS_COMPLETION_BASE_HIGH 0x054 /* RW: Address of the completion ring, high half. */
#define AMOEBA_CONTEXTS_COMPLETION_BASE_HIGH_STRIDE 0x080
#define AMOEBA_CONTEXTS_COMPLETION_SIZE 0x058 /* RW: log2 of the completion ring's entries, 0 to 15. */
#define AMOEBA_CONTEXTS_COMPLETION_SIZE_STRIDE 0x080
#define AMOEBA_CONTEXTS_DOMAIN 0x05c /* RW: Protection domain (8 bits): only keys of the same domain are accepted. */
#define AMOEBA_CONTEXTS_DOMAIN_STRIDE 0x080
#define AMOEBA_CONTEXTS_JOB_ID 0x060 /* RW: UET job (24 bits) whose requests are accepted. */
#define AMOEBA_CONTEXTS_JOB_ID_STRIDE 0x080
#define AMOEBA_CONTEXTS_PID_ON_FEP 0x064 /* RW: UET process id (12 bits) whose requests are accepted. */
#define AMOEBA_CONTEXTS_PID_ON_FEP_STRIDE 0x080
#define AMOEBA_CONTEXTS_EVENT_BASE_LOW 0x068 /* RW: Address of the event ring, low half, or 0: none; a multiple of 64: lower bits stay zero. */
#define AMOEBA_CONTEXTS_EVENT_BASE_LOW_STRIDE 0x080
#define AMOEBA_CONTEXTS_EVENT_BASE_HIGH 0x06c /* RW: Address of the event ring, high half. */
#define AMOEBA_CONTEXTS_EVENT_BASE_HIGH_STRIDE 0x080
#define AMOEBA_CONTEXTS_EVENT_SIZE 0x070 /* RW: log2 of the event ring's entries, 3 to 15. */
#define AMOEBA_CONTEXTS_EVENT_SIZE_STRIDE 0x080
#define AMOEBA_CONTEXTS_RECEIVE_BASE_LOW 0x074 /* RW: Address of the receive ring, low half; a multiple of 64: lower bits stay zero. */
#define AMOEBA_CONTEXTS_RECEIVE_BASE_LOW_STRIDE 0x080
#define AMOEBA_CONTEXTS_RECEIVE_BASE_HIGH 0x078 /* RW: Address of the receive ring, high half. */
#define AMOEBA_CONTEXTS_RECEIVE_BASE_HIGH_STRIDE 0x080
#define AMOEBA_CONTEXTS_RECEIVE_SIZE 0x07c /* RW: log2 of the receive ring's entries, 0 to 15. */
#define AMOEBA_CONTEXTS_RECEIVE_SIZE_STRIDE 0x080
#define AMOEBA_CONTEXTS_UNEXPECTED_BASE_LOW 0x080 /* RW: Unexpected slots: unexpected * payload bytes of host memory, or 0: no messages; a multiple of 64: lower bits stay zero. */
#define AMOEBA_CONTEXTS_UNEXPECTED_BASE_LOW_STRIDE 0x080
#define AMOEBA_CONTEXTS_UNEXPECTED_BASE_HIGH 0x084 /* RW: The same, high half. */
#define AMOEBA_CONTEXTS_UNEXPECTED_BASE_HIGH_STRIDE 0x080
#define AMOEBA_CONTEXTS_READ_COUNTER 0x088 /* RW: Event counter of peers' requests that fetch something (8 bits); 0: none. */
#define AMOEBA_CONTEXTS_READ_COUNTER_STRIDE 0x080
#define AMOEBA_CONTEXTS_WRITE_COUNTER 0x08c /* RW: The same of writes and base atomics. */
#define AMOEBA_CONTEXTS_WRITE_COUNTER_STRIDE 0x080
#define AMOEBA_CONTEXTS_RECEIVE_CONTEXT 0x090 /* RW: Context whose receives its messages meet (8 bits), with SHARES_RECEIVES. */
#define AMOEBA_CONTEXTS_RECEIVE_CONTEXT_STRIDE 0x080

/* The key table, written one slot at a time; amoeba_key_slot() names the slots of a key. */
#define AMOEBA_KEYS_TYPE 0x414d0004
#define AMOEBA_KEYS_VERSION 1
#define AMOEBA_KEYS_KEY_LOW 0x010 /* RW: Key, low half. */
#define AMOEBA_KEYS_KEY_HIGH 0x014 /* RW: Key, high half. */
#define AMOEBA_KEYS_BASE_LOW 0x018 /* RW: Virtual address of the region's first byte, low half. */
#define AMOEBA_KEYS_BASE_HIGH 0x01c /* RW: The same, high half. */
#define AMOEBA_KEYS_LENGTH_LOW 0x020 /* RW: Length of the region in bytes, low half. */
#define AMOEBA_KEYS_LENGTH_HIGH 0x024 /* RW: The same, high half. */
#define AMOEBA_KEYS_DOMAIN 0x028 /* RW: Protection domain (8 bits). */
#define AMOEBA_KEYS_FLAGS 0x02c /* RW: Rights and addressing: KeyFlags. */
#define AMOEBA_KEYS_READ_COUNTER 0x034 /* RW: Event counter of requests that fetch something (8 bits); 0: none. */
#define AMOEBA_KEYS_WRITE_COUNTER 0x038 /* RW: The same of requests that may change memory. */
#define AMOEBA_KEYS_STORE 0x030 /* W: Store the other values into the slot written here. */

/* The peer table, written one entry at a time; each entry is one packet delivery context. */
#define AMOEBA_PEERS_TYPE 0x414d0005
#define AMOEBA_PEERS_VERSION 1
#define AMOEBA_PEERS_MAC_LOW 0x010 /* RW: MAC address of the peer, bytes 5 (least significant) to 2. */
#define AMOEBA_PEERS_MAC_HIGH 0x014 /* RW: MAC address of the peer, bytes 1 (least significant) and 0. */
#define AMOEBA_PEERS_IP 0x018 /* RW: IPv4 address of the peer. */
#define AMOEBA_PEERS_JOB_ID 0x01c /* RW: UET job of the peer (24 bits). */
#define AMOEBA_PEERS_PID_ON_FEP 0x020 /* RW: UET process id of the peer (12 bits). */
#define AMOEBA_PEERS_RESOURCE_INDEX 0x024 /* RW: Context of the peer (12 bits). */
#define AMOEBA_PEERS_INITIAL_PSN 0x028 /* RW: First packet sequence number to use. */
#define AMOEBA_PEERS_ENTROPY 0x02c /* RW: UDP source port (16 bits). */
#define AMOEBA_PEERS_FLAGS 0x030 /* RW: PeerFlags. */
#define AMOEBA_PEERS_CONTEXT 0x034 /* RW: Own context that uses this entry. */
#define AMOEBA_PEERS_INITIATOR 0x03c /* RW: By which of its contexts the peer is to know who sent a request (12 bits). */
#define AMOEBA_PEERS_STORE 0x038 /* W: Store the values above into the entry written here (16 bits); opens a new PDC. */
#define AMOEBA_PEERS_FAIL 0x040 /* W: Give up the PDC of the entry written here (16 bits), as if it had timed out. */
#define AMOEBA_PEERS_CLOSE_REQUESTS 0x044 /* R: A bit for each entry, 32 in a word: the peer asks for a CLOSE of its PDC, which has not failed. */
#define AMOEBA_PEERS_CLOSE_REQUESTS_STRIDE 0x004

/* Counts of events since reset. */
#define AMOEBA_COUNTERS_TYPE 0x414d0006
#define AMOEBA_COUNTERS_VERSION 1
#define AMOEBA_COUNTERS_VALUE 0x010 /* R: Counters, in the order of Counter. */
#define AMOEBA_COUNTERS_VALUE_STRIDE 0x004

/* The target PDCs, seen and closed one at a time. */
#define AMOEBA_TARGET_PDCS_TYPE 0x414d0007
#define AMOEBA_TARGET_PDCS_VERSION 1
#define AMOEBA_TARGET_PDCS_SELECT 0x010 /* W: Show the target PDC of this number (16 bits) below, as it is now. */
#define AMOEBA_TARGET_PDCS_CLOSE 0x014 /* W: Close the target PDC of this number (16 bits), if it is open, behind the packet in hand. */
#define AMOEBA_TARGET_PDCS_STATE 0x018 /* R: TargetPdcState of the one selected; if it is FREE, all else is 0. */
#define AMOEBA_TARGET_PDCS_IP 0x01c /* R: IPv4 address of its initiator. */
#define AMOEBA_TARGET_PDCS_SPDCID 0x020 /* R: The entry of its initiator's peer table (16 bits): spdcid less 1. */
#define AMOEBA_TARGET_PDCS_JOB_ID 0x024 /* R: UET job (24 bits) that the request which came last was for. */
#define AMOEBA_TARGET_PDCS_CONTEXT 0x028 /* R: Context (12 bits) that it was for. */
#define AMOEBA_TARGET_PDCS_EXPECTED 0x02c /* R: The packet sequence number that comes next. */
#define AMOEBA_TARGET_PDCS_CAME_LOW 0x030 /* R: When something came of it last, in cycles since reset (48 bits). */
#define AMOEBA_TARGET_PDCS_CAME_HIGH 0x034 /* R: The same, high half. */

/* Return the slot of the key table that the NIC looks into at the given probe: 0 first, then 1 and so on, below
   AMOEBA_KEY_PROBES and below the table's size, which the register keys of the block device holds. */
static inline uint32_t amoeba_key_slot(uint64_t key, uint32_t probe, uint32_t table_size) {
    const uint64_t folded = key ^ key >> 16 ^ key >> 32 ^ key >> 48;
    return (uint32_t)(folded + probe) & 0xffff & (table_size - 1);
}

/* One request of a transmit ring, in host memory. */
struct amoeba_tx_descriptor {
    uint8_t opcode; /* Operation. */
    uint8_t op; /* Atomic operation, libfabric's number. */
    uint8_t datatype; /* Atomic datatype, libfabric's number. */
    uint8_t flags; /* Modifiers. */
    uint32_t length; /* Bytes of remote memory concerned; for atomics a multiple of the element size. */
    uint16_t peer; /* Index into the peer table: whom to talk to. */
    uint8_t counter; /* Event counter that the end of the request advances; 0: none. */
    uint8_t reserved0; /* Zero. */
    uint32_t reserved1; /* Zero. */
    uint64_t remote_address; /* Virtual address or offset in the remote region; of a tagged atomic in the receive. */
    uint64_t remote_key; /* Key of the remote region; tag of a tagged message. */
    uint64_t local; /* Address of the source buffer or of the operands; their value if INLINE. */
    uint64_t result; /* Address that receives read or fetched data. */
    uint64_t compare; /* Address of the compare values; their value if INLINE; immediate data if IMMEDIATE. */
    uint64_t context; /* The application's context, returned in the completion. */
};

/* One entry of a context's receive ring, in host memory. */
struct amoeba_rx_descriptor {
    uint8_t opcode; /* Operation. */
    uint8_t flags; /* Modifiers. */
    uint8_t counter; /* Event counter that every message received into the buffer advances; 0: none. */
    uint8_t target_context; /* Context that the message is for if ADDRESSED. */
    uint32_t length; /* Bytes of the buffer. */
    uint64_t tag; /* Tag wanted. */
    uint64_t ignore; /* Bits of the tag that need not match. */
    uint64_t address; /* The buffer. */
    uint64_t context; /* The application's context, returned in events. */
    uint32_t source_ip; /* IPv4 address wanted if DIRECTED. */
    uint32_t source_context; /* Context of the sender wanted if DIRECTED. */
    uint32_t least_space; /* A MULTI buffer with less free space than this is used up. */
    uint32_t reserved1; /* Zero. */
    uint64_t reserved2; /* Zero. */
};

/* Payload of a rendezvous message instead of its data; NICs copy it like any other, drivers use it. */
struct amoeba_rendezvous {
    uint64_t key; /* Key to read the message with, from ``buffer_offset`` 0 on. */
    uint64_t token; /* Even. Immediate data of the last READ, of 0 bytes if none is wanted: the sender may go on. With token + 1: nobody will read the message. */
    uint32_t mac_low; /* MAC address of the NIC that it is read from, bytes 5 (least significant) to 2. */
    uint16_t mac_high; /* The same, bytes 1 (least significant) and 0. */
    uint16_t resource_index; /* The sender's context that READs go to. */
    uint32_t job_id; /* Its UET job. */
    uint16_t pid_on_fep; /* Its UET process id. */
    uint16_t relative; /* 1: that counts within the job; 0: within the NIC. */
};

/* One entry of a completion ring, in host memory; written by a single write, phase byte last. */
struct amoeba_completion {
    uint64_t context; /* ``context`` of the descriptor. */
    uint64_t data; /* Zero. */
    uint32_t length; /* ``length`` of the descriptor. */
    uint16_t descriptor; /* Producer index of the descriptor in its transmit ring (modulo 2**16). */
    uint8_t opcode; /* ``opcode`` of the descriptor. */
    uint8_t status; /* Return code: UET's, from 0x30 on Amoeba's own. */
    uint32_t reserved0; /* Zero. */
    uint16_t reserved1; /* Zero. */
    uint8_t reserved2; /* Zero. */
    uint8_t flags; /* Phase bit. */
};

/* One entry of a context's event ring, in host memory; written by a single write, phase byte last. */
struct amoeba_event {
    uint64_t context; /* ``context`` of the receive descriptor; of ARRIVED: receive descriptors done before it, modulo 2**16. */
    uint64_t data; /* Immediate data. */
    uint64_t tag; /* Tag of the message if TAGGED. */
    uint64_t address; /* Virtual address of the first byte concerned; of a message: of its place. */
    uint32_t length; /* Bytes of the packet that carried the immediate data; of a message: its length. */
    uint32_t source_ip; /* IPv4 address of the initiator. */
    uint32_t source_context; /* ``initiator`` of the request: the initiator's context. */
    uint16_t source_pdc; /* The initiator's PDC (its peer index). */
    uint16_t slot; /* Unexpected slot if IN_SLOT. */
    uint32_t reserved1; /* Zero. */
    uint32_t reserved2; /* Zero. */
    uint32_t reserved3; /* Zero. */
    uint8_t target_context; /* Context that the request was for. */
    uint8_t kind; /* Kind of the event. */
    uint8_t status; /* Return code. */
    uint8_t flags; /* Phase bit; what is valid. */
};

/* One entry of the event counters in host memory; written by a single write, never read. */
struct amoeba_event_counter {
    uint64_t success; /* Requests or messages that succeeded. */
    uint64_t error; /* Requests or messages that failed. */
};

/* One slot of the trace port. */
struct amoeba_trace_event {
    uint32_t psn; /* Packet sequence number, or what Stage says. */
    uint16_t pdc; /* PDC: the initiator's on its side (peer index), the target's on the other. */
    uint8_t context; /* Context concerned; 0xFF where none is. */
    uint8_t status; /* Return code where one is known. */
};

enum amoeba_op { /* enum fi_op. FI_DIFF (2.x) is an extension: no manual page lists it among the operations. */
    AMOEBA_OP_FI_MIN = 0,
    AMOEBA_OP_FI_MAX = 1,
    AMOEBA_OP_FI_SUM = 2,
    AMOEBA_OP_FI_PROD = 3,
    AMOEBA_OP_FI_LOR = 4,
    AMOEBA_OP_FI_LAND = 5,
    AMOEBA_OP_FI_BOR = 6,
    AMOEBA_OP_FI_BAND = 7,
    AMOEBA_OP_FI_LXOR = 8,
    AMOEBA_OP_FI_BXOR = 9,
    AMOEBA_OP_FI_ATOMIC_READ = 10,
    AMOEBA_OP_FI_ATOMIC_WRITE = 11,
    AMOEBA_OP_FI_CSWAP = 12,
    AMOEBA_OP_FI_CSWAP_NE = 13,
    AMOEBA_OP_FI_CSWAP_LE = 14,
    AMOEBA_OP_FI_CSWAP_LT = 15,
    AMOEBA_OP_FI_CSWAP_GE = 16,
    AMOEBA_OP_FI_CSWAP_GT = 17,
    AMOEBA_OP_FI_MSWAP = 18,
    AMOEBA_OP_FI_DIFF = 19,
};

enum amoeba_datatype { /* enum fi_datatype. Members from FI_FLOAT16 on (2.x) are extensions. */
    AMOEBA_DATATYPE_FI_INT8 = 0,
    AMOEBA_DATATYPE_FI_UINT8 = 1,
    AMOEBA_DATATYPE_FI_INT16 = 2,
    AMOEBA_DATATYPE_FI_UINT16 = 3,
    AMOEBA_DATATYPE_FI_INT32 = 4,
    AMOEBA_DATATYPE_FI_UINT32 = 5,
    AMOEBA_DATATYPE_FI_INT64 = 6,
    AMOEBA_DATATYPE_FI_UINT64 = 7,
    AMOEBA_DATATYPE_FI_FLOAT = 8,
    AMOEBA_DATATYPE_FI_DOUBLE = 9,
    AMOEBA_DATATYPE_FI_FLOAT_COMPLEX = 10,
    AMOEBA_DATATYPE_FI_DOUBLE_COMPLEX = 11,
    AMOEBA_DATATYPE_FI_LONG_DOUBLE = 12,
    AMOEBA_DATATYPE_FI_LONG_DOUBLE_COMPLEX = 13,
    AMOEBA_DATATYPE_FI_INT128 = 14,
    AMOEBA_DATATYPE_FI_UINT128 = 15,
    AMOEBA_DATATYPE_FI_FLOAT16 = 16,
    AMOEBA_DATATYPE_FI_BFLOAT16 = 17,
    AMOEBA_DATATYPE_FI_FLOAT8_E4M3 = 18,
    AMOEBA_DATATYPE_FI_FLOAT8_E5M2 = 19,
};

enum amoeba_descriptor_opcode { /* Operations of transmit descriptors. */
    AMOEBA_DESCRIPTOR_OPCODE_NOP = 0,
    AMOEBA_DESCRIPTOR_OPCODE_WRITE = 1,
    AMOEBA_DESCRIPTOR_OPCODE_READ = 2,
    AMOEBA_DESCRIPTOR_OPCODE_ATOMIC = 3,
    AMOEBA_DESCRIPTOR_OPCODE_FETCH_ATOMIC = 4,
    AMOEBA_DESCRIPTOR_OPCODE_COMPARE_ATOMIC = 5,
    AMOEBA_DESCRIPTOR_OPCODE_CLOSE = 6,
    AMOEBA_DESCRIPTOR_OPCODE_SEND = 7,
    AMOEBA_DESCRIPTOR_OPCODE_TAGGED_SEND = 8,
    AMOEBA_DESCRIPTOR_OPCODE_RENDEZVOUS_SEND = 9,
    AMOEBA_DESCRIPTOR_OPCODE_RENDEZVOUS_TAGGED_SEND = 10,
    AMOEBA_DESCRIPTOR_OPCODE_TAGGED_ATOMIC = 11,
    AMOEBA_DESCRIPTOR_OPCODE_TAGGED_FETCH_ATOMIC = 12,
    AMOEBA_DESCRIPTOR_OPCODE_PING = 13,
};

enum amoeba_descriptor_flags {
    AMOEBA_DESCRIPTOR_FLAGS_COMPLETION = 0x1,
    AMOEBA_DESCRIPTOR_FLAGS_INLINE = 0x2,
    AMOEBA_DESCRIPTOR_FLAGS_FENCE = 0x4,
    AMOEBA_DESCRIPTOR_FLAGS_IMMEDIATE = 0x8,
    AMOEBA_DESCRIPTOR_FLAGS_CHAINED = 0x10,
    AMOEBA_DESCRIPTOR_FLAGS_FENCE_ALL = 0x20,
};

enum amoeba_receive_opcode { /* Operations of receive descriptors. */
    AMOEBA_RECEIVE_OPCODE_RECEIVE = 1,
    AMOEBA_RECEIVE_OPCODE_PEEK = 2,
    AMOEBA_RECEIVE_OPCODE_TAKE = 3,
    AMOEBA_RECEIVE_OPCODE_CANCEL = 4,
};

enum amoeba_receive_flags {
    AMOEBA_RECEIVE_FLAGS_TAGGED = 0x1,
    AMOEBA_RECEIVE_FLAGS_MULTI = 0x2,
    AMOEBA_RECEIVE_FLAGS_DIRECTED = 0x4,
    AMOEBA_RECEIVE_FLAGS_ADDRESSED = 0x8,
};

enum amoeba_completion_flags {
    AMOEBA_COMPLETION_FLAGS_PHASE = 0x80,
};

enum amoeba_event_kind { /* Kinds of events: accesses by peers to the memory of a context, and the fate of messages and receives. */
    AMOEBA_EVENT_KIND_REMOTE_WRITE = 1,
    AMOEBA_EVENT_KIND_REMOTE_READ = 2,
    AMOEBA_EVENT_KIND_REMOTE_ATOMIC = 3,
    AMOEBA_EVENT_KIND_RECEIVED = 4,
    AMOEBA_EVENT_KIND_UNEXPECTED = 5,
    AMOEBA_EVENT_KIND_RENDEZVOUS = 6,
    AMOEBA_EVENT_KIND_ATOMIC_RECEIVED = 7,
    AMOEBA_EVENT_KIND_NO_MATCH = 8,
    AMOEBA_EVENT_KIND_FOUND = 9,
    AMOEBA_EVENT_KIND_TAKEN = 10,
    AMOEBA_EVENT_KIND_CANCELLED = 11,
    AMOEBA_EVENT_KIND_REFUSED = 12,
    AMOEBA_EVENT_KIND_ARRIVED = 13,
};

enum amoeba_event_flags {
    AMOEBA_EVENT_FLAGS_PHASE = 0x80,
    AMOEBA_EVENT_FLAGS_IMMEDIATE = 0x1,
    AMOEBA_EVENT_FLAGS_TAGGED = 0x2,
    AMOEBA_EVENT_FLAGS_RELEASED = 0x4,
    AMOEBA_EVENT_FLAGS_IN_SLOT = 0x8,
    AMOEBA_EVENT_FLAGS_LONG = 0x10,
};

enum amoeba_context_control {
    AMOEBA_CONTEXT_CONTROL_ENABLE = 0x1,
    AMOEBA_CONTEXT_CONTROL_CSWAP_BY_BITS = 0x2,
    AMOEBA_CONTEXT_CONTROL_DATA_BY_KEY = 0x4,
    AMOEBA_CONTEXT_CONTROL_SHARES_RECEIVES = 0x8,
    AMOEBA_CONTEXT_CONTROL_ANNOUNCE = 0x10,
    AMOEBA_CONTEXT_CONTROL_RELATIVE = 0x20,
};

enum amoeba_key_flags { /* flags of a key table entry. */
    AMOEBA_KEY_FLAGS_VALID = 0x1,
    AMOEBA_KEY_FLAGS_REMOTE_READ = 0x2,
    AMOEBA_KEY_FLAGS_REMOTE_WRITE = 0x4,
    AMOEBA_KEY_FLAGS_VIRTUAL = 0x8,
    AMOEBA_KEY_FLAGS_DATA = 0x10,
};

enum amoeba_peer_flags {
    AMOEBA_PEER_FLAGS_VALID = 0x1,
    AMOEBA_PEER_FLAGS_RELATIVE = 0x2,
    AMOEBA_PEER_FLAGS_WHOLE_WINDOW = 0x4,
};

enum amoeba_counter { /* Counters of the NIC, in the order of the counter block. Each counts modulo 2**32 since reset. */
    AMOEBA_COUNTER_DESCRIPTORS = 0,
    AMOEBA_COUNTER_COMPLETIONS = 1,
    AMOEBA_COUNTER_ERROR_COMPLETIONS = 2,
    AMOEBA_COUNTER_REQUESTS_SENT = 3,
    AMOEBA_COUNTER_RESPONSES_SENT = 4,
    AMOEBA_COUNTER_FRAMES_RECEIVED = 5,
    AMOEBA_COUNTER_REQUESTS_RECEIVED = 6,
    AMOEBA_COUNTER_RESPONSES_RECEIVED = 7,
    AMOEBA_COUNTER_DROPPED_MALFORMED = 8,
    AMOEBA_COUNTER_DROPPED_CHECK = 9,
    AMOEBA_COUNTER_DROPPED_ADDRESS = 10,
    AMOEBA_COUNTER_DROPPED_PDC = 11,
    AMOEBA_COUNTER_DROPPED_SEQUENCE = 12,
    AMOEBA_COUNTER_DROPPED_RESPONSE = 13,
    AMOEBA_COUNTER_REFUSED_REQUESTS = 14,
    AMOEBA_COUNTER_ATOMIC_BEATS = 15,
    AMOEBA_COUNTER_LINE_READS = 16,
    AMOEBA_COUNTER_LINE_WRITES = 17,
    AMOEBA_COUNTER_LINE_HITS = 18,
    AMOEBA_COUNTER_DMA_READ_ERRORS = 19,
    AMOEBA_COUNTER_DMA_WRITE_ERRORS = 20,
    AMOEBA_COUNTER_INTERRUPTS = 21,
    AMOEBA_COUNTER_RETRANSMISSIONS = 22,
    AMOEBA_COUNTER_TIMEOUTS = 23,
    AMOEBA_COUNTER_FAILED_PDCS = 24,
    AMOEBA_COUNTER_NACKS_SENT = 25,
    AMOEBA_COUNTER_NACKS_RECEIVED = 26,
    AMOEBA_COUNTER_DUPLICATES = 27,
    AMOEBA_COUNTER_EVENTS = 28,
    AMOEBA_COUNTER_MESSAGES_MATCHED = 29,
    AMOEBA_COUNTER_MESSAGES_UNEXPECTED = 30,
    AMOEBA_COUNTER_COUNTER_WRITES = 31,
    AMOEBA_COUNTER_DROPPED_OVERFLOW = 32,
    AMOEBA_COUNTER_MARKED_REQUESTS = 33,
    AMOEBA_COUNTER_MARKED_RESPONSES = 34,
};

enum amoeba_stage { /* Stages of a request's life, in the order in which a fetching atomic passes them. */
    AMOEBA_STAGE_DOORBELL = 0,
    AMOEBA_STAGE_DESCRIPTOR = 1,
    AMOEBA_STAGE_OPERAND = 2,
    AMOEBA_STAGE_REQUEST_SENT = 3,
    AMOEBA_STAGE_REQUEST_RECEIVED = 4,
    AMOEBA_STAGE_REQUEST_CHECKED = 5,
    AMOEBA_STAGE_LINE_READ = 6,
    AMOEBA_STAGE_EXECUTED = 7,
    AMOEBA_STAGE_LINE_WRITTEN = 8,
    AMOEBA_STAGE_RESPONSE_SENT = 9,
    AMOEBA_STAGE_RESPONSE_RECEIVED = 10,
    AMOEBA_STAGE_RESULT_WRITTEN = 11,
    AMOEBA_STAGE_COMPLETION_WRITTEN = 12,
    AMOEBA_STAGE_INTERRUPT = 13,
    AMOEBA_STAGE_EVENT_WRITTEN = 14,
};

enum amoeba_requester { /* Components that access host memory; AxUSER[7:0] on the AXI4 port carries this number. */
    AMOEBA_REQUESTER_DESCRIPTOR_FETCH = 1,
    AMOEBA_REQUESTER_OPERAND_FETCH = 2,
    AMOEBA_REQUESTER_COMPARE_FETCH = 3,
    AMOEBA_REQUESTER_LINE_TABLE = 4,
    AMOEBA_REQUESTER_RESULT_WRITER = 5,
    AMOEBA_REQUESTER_COMPLETION_WRITER = 6,
    AMOEBA_REQUESTER_EVENT_WRITER = 7,
    AMOEBA_REQUESTER_ANSWER_WRITER = 8,
    AMOEBA_REQUESTER_ANSWER_FETCH = 9,
    AMOEBA_REQUESTER_RECEIVE_FETCH = 10,
    AMOEBA_REQUESTER_COUNTER_WRITER = 11,
};

enum amoeba_message_kind { /* kind of a message between drivers. */
    AMOEBA_MESSAGE_KIND_WIREUP_REQUEST = 1,
    AMOEBA_MESSAGE_KIND_GONE = 2,
    AMOEBA_MESSAGE_KIND_STREAM = 3,
    AMOEBA_MESSAGE_KIND_STREAM_CREDIT = 4,
    AMOEBA_MESSAGE_KIND_AM_OLD = 5,
    AMOEBA_MESSAGE_KIND_AM = 6,
    AMOEBA_MESSAGE_KIND_AM_FIRST = 7,
    AMOEBA_MESSAGE_KIND_AM_MORE = 8,
    AMOEBA_MESSAGE_KIND_AM_LONG = 9,
    AMOEBA_MESSAGE_KIND_ANSWER = 10,
};

enum amoeba_message_flags { /* flags of a message between drivers. */
    AMOEBA_MESSAGE_FLAGS_REPLY = 0x1,
    AMOEBA_MESSAGE_FLAGS_OLD = 0x4,
};

enum amoeba_pds_type {
    AMOEBA_PDS_TYPE_TSS = 1,
    AMOEBA_PDS_TYPE_RUD_REQ = 2,
    AMOEBA_PDS_TYPE_ROD_REQ = 3,
    AMOEBA_PDS_TYPE_RUDI_REQ = 4,
    AMOEBA_PDS_TYPE_RUDI_RESP = 5,
    AMOEBA_PDS_TYPE_UUD_REQ = 6,
    AMOEBA_PDS_TYPE_ACK = 7,
    AMOEBA_PDS_TYPE_ACK_CC = 8,
    AMOEBA_PDS_TYPE_ACK_CCX = 9,
    AMOEBA_PDS_TYPE_NACK = 10,
    AMOEBA_PDS_TYPE_CONTROL = 11,
    AMOEBA_PDS_TYPE_NACK_CCX = 12,
    AMOEBA_PDS_TYPE_RUD_CC_REQ = 13,
    AMOEBA_PDS_TYPE_ROD_CC_REQ = 14,
};

enum amoeba_pds_flags { /* Prologue flags of requests (7 bits). */
    AMOEBA_PDS_FLAGS_RETX = 0x10,
    AMOEBA_PDS_FLAGS_ACK_REQUEST = 0x8,
    AMOEBA_PDS_FLAGS_SYN = 0x4,
};

enum amoeba_ack_flags { /* Prologue flags of acknowledgements and negative ones (7 bits). */
    AMOEBA_ACK_FLAGS_MARKED = 0x20,
    AMOEBA_ACK_FLAGS_RETX = 0x10,
    AMOEBA_ACK_FLAGS_REQUEST_CLEAR = 0x2,
};

enum amoeba_control_flags { /* Prologue flags of control packets (7 bits). */
    AMOEBA_CONTROL_FLAGS_IS_ROD = 0x20,
    AMOEBA_CONTROL_FLAGS_RETX = 0x10,
    AMOEBA_CONTROL_FLAGS_ACK_REQUEST = 0x8,
    AMOEBA_CONTROL_FLAGS_SYN = 0x4,
};

enum amoeba_next_header {
    AMOEBA_NEXT_HEADER_NONE = 0,
    AMOEBA_NEXT_HEADER_REQUEST_SMALL = 1,
    AMOEBA_NEXT_HEADER_REQUEST_MEDIUM = 2,
    AMOEBA_NEXT_HEADER_REQUEST_STD = 3,
    AMOEBA_NEXT_HEADER_RESPONSE = 4,
    AMOEBA_NEXT_HEADER_RESPONSE_DATA = 5,
    AMOEBA_NEXT_HEADER_RESPONSE_DATA_SMALL = 6,
};

enum amoeba_control_type { /* Types of PDS control packets (next_header of its prologue). */
    AMOEBA_CONTROL_TYPE_NOOP = 0,
    AMOEBA_CONTROL_TYPE_ACK_REQUEST = 1,
    AMOEBA_CONTROL_TYPE_CLEAR_COMMAND = 2,
    AMOEBA_CONTROL_TYPE_CLEAR_REQUEST = 3,
    AMOEBA_CONTROL_TYPE_CLOSE_COMMAND = 4,
    AMOEBA_CONTROL_TYPE_CLOSE_REQUEST = 5,
    AMOEBA_CONTROL_TYPE_PROBE = 6,
    AMOEBA_CONTROL_TYPE_CREDIT = 7,
    AMOEBA_CONTROL_TYPE_CREDIT_REQUEST = 8,
    AMOEBA_CONTROL_TYPE_NEGOTIATION = 9,
};

enum amoeba_nack_code { /* Why a packet was not accepted. */
    AMOEBA_NACK_CODE_TRIMMED = 1,
    AMOEBA_NACK_CODE_TRIMMED_LASTHOP = 2,
    AMOEBA_NACK_CODE_TRIMMED_ACK = 3,
    AMOEBA_NACK_CODE_NO_PDC_AVAIL = 4,
    AMOEBA_NACK_CODE_NO_CCC_AVAIL = 5,
    AMOEBA_NACK_CODE_NO_BITMAP = 6,
    AMOEBA_NACK_CODE_NO_PKT_BUFFER = 7,
    AMOEBA_NACK_CODE_NO_GTD_DEL_AVAIL = 8,
    AMOEBA_NACK_CODE_NO_SES_MSG_AVAIL = 9,
    AMOEBA_NACK_CODE_NO_RESOURCE = 10,
    AMOEBA_NACK_CODE_PSN_OOR_WINDOW = 11,
    AMOEBA_NACK_CODE_ROD_OOO = 13,
    AMOEBA_NACK_CODE_INV_DPDCID = 14,
    AMOEBA_NACK_CODE_PDC_HDR_MISMATCH = 15,
    AMOEBA_NACK_CODE_CLOSING = 16,
    AMOEBA_NACK_CODE_CLOSING_IN_ERR = 17,
    AMOEBA_NACK_CODE_PKT_NOT_RCVD = 18,
    AMOEBA_NACK_CODE_GTD_RESP_UNAVAIL = 19,
    AMOEBA_NACK_CODE_ACK_WITH_DATA = 20,
    AMOEBA_NACK_CODE_INVALID_SYN = 21,
    AMOEBA_NACK_CODE_PDC_MODE_MISMATCH = 22,
    AMOEBA_NACK_CODE_NEW_START_PSN = 23,
    AMOEBA_NACK_CODE_RCVD_SES_PROCG = 24,
    AMOEBA_NACK_CODE_UNEXP_EVENT = 25,
    AMOEBA_NACK_CODE_RCVR_INFER_LOSS = 26,
};

enum amoeba_request_opcode { /* SES request opcodes. */
    AMOEBA_REQUEST_OPCODE_NO_OP = 0,
    AMOEBA_REQUEST_OPCODE_WRITE = 1,
    AMOEBA_REQUEST_OPCODE_READ = 2,
    AMOEBA_REQUEST_OPCODE_ATOMIC = 3,
    AMOEBA_REQUEST_OPCODE_FETCHING_ATOMIC = 4,
    AMOEBA_REQUEST_OPCODE_SEND = 5,
    AMOEBA_REQUEST_OPCODE_RENDEZVOUS_SEND = 6,
    AMOEBA_REQUEST_OPCODE_DATAGRAM_SEND = 7,
    AMOEBA_REQUEST_OPCODE_DEFERRABLE_SEND = 8,
    AMOEBA_REQUEST_OPCODE_TAGGED_SEND = 9,
    AMOEBA_REQUEST_OPCODE_RENDEZVOUS_TSEND = 10,
    AMOEBA_REQUEST_OPCODE_DEFERRABLE_TSEND = 11,
    AMOEBA_REQUEST_OPCODE_READY_TO_RESTART = 12,
    AMOEBA_REQUEST_OPCODE_TSEND_ATOMIC = 13,
    AMOEBA_REQUEST_OPCODE_TSEND_FETCH_ATOMIC = 14,
    AMOEBA_REQUEST_OPCODE_MSG_ERROR = 15,
    AMOEBA_REQUEST_OPCODE_AMOEBA_COMPARE_ATOMIC = 48,
    AMOEBA_REQUEST_OPCODE_AMOEBA_ATOMIC = 49,
    AMOEBA_REQUEST_OPCODE_AMOEBA_FETCHING_ATOMIC = 50,
};

enum amoeba_ses_flags { /* Second byte of the SES request header, below the version. */
    AMOEBA_SES_FLAGS_DELIVERY_COMPLETE = 0x20,
    AMOEBA_SES_FLAGS_INITIATOR_ERROR = 0x10,
    AMOEBA_SES_FLAGS_RELATIVE = 0x8,
    AMOEBA_SES_FLAGS_HEADER_DATA = 0x4,
    AMOEBA_SES_FLAGS_END_OF_MESSAGE = 0x2,
    AMOEBA_SES_FLAGS_START_OF_MESSAGE = 0x1,
};

enum amoeba_response_opcode {
    AMOEBA_RESPONSE_OPCODE_DEFAULT = 0,
    AMOEBA_RESPONSE_OPCODE_RESPONSE = 1,
    AMOEBA_RESPONSE_OPCODE_WITH_DATA = 2,
    AMOEBA_RESPONSE_OPCODE_NONE = 3,
};

enum amoeba_return_code { /* SES return codes; from 0x30 on Amoeba's own, used in completions for errors found at the initiator. */
    AMOEBA_RETURN_CODE_NULL = 0,
    AMOEBA_RETURN_CODE_OK = 1,
    AMOEBA_RETURN_CODE_BAD_GENERATION = 2,
    AMOEBA_RETURN_CODE_DISABLED = 3,
    AMOEBA_RETURN_CODE_DISABLED_GEN = 4,
    AMOEBA_RETURN_CODE_NO_MATCH = 5,
    AMOEBA_RETURN_CODE_UNSUPPORTED_OP = 6,
    AMOEBA_RETURN_CODE_UNSUPPORTED_SIZE = 7,
    AMOEBA_RETURN_CODE_AT_INVALID = 8,
    AMOEBA_RETURN_CODE_AT_PERM = 9,
    AMOEBA_RETURN_CODE_AT_ATS_ERROR = 10,
    AMOEBA_RETURN_CODE_AT_NO_TRANS = 11,
    AMOEBA_RETURN_CODE_AT_OUT_OF_RANGE = 12,
    AMOEBA_RETURN_CODE_HOST_POISONED = 13,
    AMOEBA_RETURN_CODE_HOST_UNSUCCESS_CMPL = 14,
    AMOEBA_RETURN_CODE_AMO_UNSUPPORTED_OP = 15,
    AMOEBA_RETURN_CODE_AMO_UNSUPPORTED_DT = 16,
    AMOEBA_RETURN_CODE_AMO_UNSUPPORTED_SIZE = 17,
    AMOEBA_RETURN_CODE_AMO_UNALIGNED = 18,
    AMOEBA_RETURN_CODE_AMO_FP_NAN = 19,
    AMOEBA_RETURN_CODE_AMO_FP_UNDERFLOW = 20,
    AMOEBA_RETURN_CODE_AMO_FP_OVERFLOW = 21,
    AMOEBA_RETURN_CODE_AMO_FP_INEXACT = 22,
    AMOEBA_RETURN_CODE_PERM_VIOLATION = 23,
    AMOEBA_RETURN_CODE_OP_VIOLATION = 24,
    AMOEBA_RETURN_CODE_BAD_INDEX = 25,
    AMOEBA_RETURN_CODE_BAD_PID = 26,
    AMOEBA_RETURN_CODE_BAD_JOB_ID = 27,
    AMOEBA_RETURN_CODE_BAD_MKEY = 28,
    AMOEBA_RETURN_CODE_BAD_ADDR = 29,
    AMOEBA_RETURN_CODE_CANCELLED = 30,
    AMOEBA_RETURN_CODE_UNDELIVERABLE = 31,
    AMOEBA_RETURN_CODE_UNCOR = 32,
    AMOEBA_RETURN_CODE_UNCOR_TRNSNT = 33,
    AMOEBA_RETURN_CODE_TOO_LONG = 34,
    AMOEBA_RETURN_CODE_INITIATOR_ERROR = 35,
    AMOEBA_RETURN_CODE_DROPPED = 36,
    AMOEBA_RETURN_CODE_LOCAL_BAD_DESCRIPTOR = 48,
    AMOEBA_RETURN_CODE_LOCAL_BAD_PEER = 49,
    AMOEBA_RETURN_CODE_LOCAL_DMA_FAULT = 50,
    AMOEBA_RETURN_CODE_LOCAL_PDC_FAILED = 51,
    AMOEBA_RETURN_CODE_LOCAL_NIC_RESET = 52,
    AMOEBA_RETURN_CODE_LOCAL_PEER_PDC_TABLE_FULL = 53,
};

enum amoeba_atomic_opcode { /* UET's atomic opcodes; not libfabric's numbers: see ATOMIC_OPCODES. */
    AMOEBA_ATOMIC_OPCODE_MIN = 0,
    AMOEBA_ATOMIC_OPCODE_MAX = 1,
    AMOEBA_ATOMIC_OPCODE_SUM = 2,
    AMOEBA_ATOMIC_OPCODE_DIFF = 3,
    AMOEBA_ATOMIC_OPCODE_PROD = 4,
    AMOEBA_ATOMIC_OPCODE_LOR = 5,
    AMOEBA_ATOMIC_OPCODE_LAND = 6,
    AMOEBA_ATOMIC_OPCODE_BOR = 7,
    AMOEBA_ATOMIC_OPCODE_BAND = 8,
    AMOEBA_ATOMIC_OPCODE_LXOR = 9,
    AMOEBA_ATOMIC_OPCODE_BXOR = 10,
    AMOEBA_ATOMIC_OPCODE_READ = 11,
    AMOEBA_ATOMIC_OPCODE_WRITE = 12,
    AMOEBA_ATOMIC_OPCODE_CSWAP = 13,
    AMOEBA_ATOMIC_OPCODE_CSWAP_NE = 14,
    AMOEBA_ATOMIC_OPCODE_CSWAP_LE = 15,
    AMOEBA_ATOMIC_OPCODE_CSWAP_LT = 16,
    AMOEBA_ATOMIC_OPCODE_CSWAP_GE = 17,
    AMOEBA_ATOMIC_OPCODE_CSWAP_GT = 18,
    AMOEBA_ATOMIC_OPCODE_MSWAP = 19,
    AMOEBA_ATOMIC_OPCODE_INVAL = 20,
};

enum amoeba_atomic_datatype { /* UET's atomic datatypes; FP8 has none, so vendor numbers stand in. */
    AMOEBA_ATOMIC_DATATYPE_INT8 = 0,
    AMOEBA_ATOMIC_DATATYPE_UINT8 = 1,
    AMOEBA_ATOMIC_DATATYPE_INT16 = 2,
    AMOEBA_ATOMIC_DATATYPE_UINT16 = 3,
    AMOEBA_ATOMIC_DATATYPE_INT32 = 4,
    AMOEBA_ATOMIC_DATATYPE_UINT32 = 5,
    AMOEBA_ATOMIC_DATATYPE_INT64 = 6,
    AMOEBA_ATOMIC_DATATYPE_UINT64 = 7,
    AMOEBA_ATOMIC_DATATYPE_INT128 = 8,
    AMOEBA_ATOMIC_DATATYPE_UINT128 = 9,
    AMOEBA_ATOMIC_DATATYPE_FLOAT = 10,
    AMOEBA_ATOMIC_DATATYPE_DOUBLE = 11,
    AMOEBA_ATOMIC_DATATYPE_FLOAT_COMPLEX = 12,
    AMOEBA_ATOMIC_DATATYPE_DOUBLE_COMPLEX = 13,
    AMOEBA_ATOMIC_DATATYPE_LONG_DOUBLE = 14,
    AMOEBA_ATOMIC_DATATYPE_LONG_DOUBLE_COMPLEX = 15,
    AMOEBA_ATOMIC_DATATYPE_BF16 = 16,
    AMOEBA_ATOMIC_DATATYPE_FP16 = 17,
    AMOEBA_ATOMIC_DATATYPE_AMOEBA_FLOAT8_E4M3 = 224,
    AMOEBA_ATOMIC_DATATYPE_AMOEBA_FLOAT8_E5M2 = 225,
};

enum amoeba_semantic_control { /* Semantic control of the atomic extension; bit positions as in the reference provider. */
    AMOEBA_SEMANTIC_CONTROL_CACHEABLE = 0x1,
    AMOEBA_SEMANTIC_CONTROL_CPU_COHERENT = 0x2,
    AMOEBA_SEMANTIC_CONTROL_AMOEBA_CSWAP_BY_BITS = 0x80,
};

/* Wire headers, big-endian: OFFSET is in bits from the most significant bit of the first byte. */
#define AMOEBA_UET_UDP_PORT 4793

/* Ethernet II header. */
#define AMOEBA_UET_ETHERNET_SIZE 14
#define AMOEBA_UET_ETHERNET_DESTINATION_OFFSET 0
#define AMOEBA_UET_ETHERNET_DESTINATION_WIDTH 48
#define AMOEBA_UET_ETHERNET_SOURCE_OFFSET 48
#define AMOEBA_UET_ETHERNET_SOURCE_WIDTH 48
#define AMOEBA_UET_ETHERNET_ETHERTYPE_OFFSET 96
#define AMOEBA_UET_ETHERNET_ETHERTYPE_WIDTH 16

/* IPv4 header. */
#define AMOEBA_UET_IPV4_SIZE 20
#define AMOEBA_UET_IPV4_VERSION_OFFSET 0
#define AMOEBA_UET_IPV4_VERSION_WIDTH 4
#define AMOEBA_UET_IPV4_HEADER_WORDS_OFFSET 4
#define AMOEBA_UET_IPV4_HEADER_WORDS_WIDTH 4
#define AMOEBA_UET_IPV4_DSCP_OFFSET 8
#define AMOEBA_UET_IPV4_DSCP_WIDTH 6
#define AMOEBA_UET_IPV4_ECN_OFFSET 14
#define AMOEBA_UET_IPV4_ECN_WIDTH 2
#define AMOEBA_UET_IPV4_TOTAL_LENGTH_OFFSET 16
#define AMOEBA_UET_IPV4_TOTAL_LENGTH_WIDTH 16
#define AMOEBA_UET_IPV4_IDENTIFICATION_OFFSET 32
#define AMOEBA_UET_IPV4_IDENTIFICATION_WIDTH 16
#define AMOEBA_UET_IPV4_FLAGS_FRAGMENT_OFFSET 48
#define AMOEBA_UET_IPV4_FLAGS_FRAGMENT_WIDTH 16
#define AMOEBA_UET_IPV4_TTL_OFFSET 64
#define AMOEBA_UET_IPV4_TTL_WIDTH 8
#define AMOEBA_UET_IPV4_PROTOCOL_OFFSET 72
#define AMOEBA_UET_IPV4_PROTOCOL_WIDTH 8
#define AMOEBA_UET_IPV4_CHECKSUM_OFFSET 80
#define AMOEBA_UET_IPV4_CHECKSUM_WIDTH 16
#define AMOEBA_UET_IPV4_SOURCE_OFFSET 96
#define AMOEBA_UET_IPV4_SOURCE_WIDTH 32
#define AMOEBA_UET_IPV4_DESTINATION_OFFSET 128
#define AMOEBA_UET_IPV4_DESTINATION_WIDTH 32

/* UDP header. */
#define AMOEBA_UET_UDP_SIZE 8
#define AMOEBA_UET_UDP_SOURCE_PORT_OFFSET 0
#define AMOEBA_UET_UDP_SOURCE_PORT_WIDTH 16
#define AMOEBA_UET_UDP_DESTINATION_PORT_OFFSET 16
#define AMOEBA_UET_UDP_DESTINATION_PORT_WIDTH 16
#define AMOEBA_UET_UDP_LENGTH_OFFSET 32
#define AMOEBA_UET_UDP_LENGTH_WIDTH 16
#define AMOEBA_UET_UDP_CHECKSUM_OFFSET 48
#define AMOEBA_UET_UDP_CHECKSUM_WIDTH 16

/* PDS header of a reliable ordered (ROD) request, in either direction. */
#define AMOEBA_UET_PDS_REQUEST_SIZE 12
#define AMOEBA_UET_PDS_REQUEST_TYPE_OFFSET 0
#define AMOEBA_UET_PDS_REQUEST_TYPE_WIDTH 5
#define AMOEBA_UET_PDS_REQUEST_NEXT_HEADER_OFFSET 5
#define AMOEBA_UET_PDS_REQUEST_NEXT_HEADER_WIDTH 4
#define AMOEBA_UET_PDS_REQUEST_FLAGS_OFFSET 9
#define AMOEBA_UET_PDS_REQUEST_FLAGS_WIDTH 7
#define AMOEBA_UET_PDS_REQUEST_CLEAR_PSN_OFFSET_OFFSET 16
#define AMOEBA_UET_PDS_REQUEST_CLEAR_PSN_OFFSET_WIDTH 16
#define AMOEBA_UET_PDS_REQUEST_PSN_OFFSET 32
#define AMOEBA_UET_PDS_REQUEST_PSN_WIDTH 32
#define AMOEBA_UET_PDS_REQUEST_SPDCID_OFFSET 64
#define AMOEBA_UET_PDS_REQUEST_SPDCID_WIDTH 16
#define AMOEBA_UET_PDS_REQUEST_DPDCID_OFFSET 80
#define AMOEBA_UET_PDS_REQUEST_DPDCID_WIDTH 16

/* PDS header of an acknowledgement. */
#define AMOEBA_UET_PDS_ACK_SIZE 12
#define AMOEBA_UET_PDS_ACK_TYPE_OFFSET 0
#define AMOEBA_UET_PDS_ACK_TYPE_WIDTH 5
#define AMOEBA_UET_PDS_ACK_NEXT_HEADER_OFFSET 5
#define AMOEBA_UET_PDS_ACK_NEXT_HEADER_WIDTH 4
#define AMOEBA_UET_PDS_ACK_FLAGS_OFFSET 9
#define AMOEBA_UET_PDS_ACK_FLAGS_WIDTH 7
#define AMOEBA_UET_PDS_ACK_ACK_PSN_OFFSET_OFFSET 16
#define AMOEBA_UET_PDS_ACK_ACK_PSN_OFFSET_WIDTH 16
#define AMOEBA_UET_PDS_ACK_CACK_PSN_OFFSET 32
#define AMOEBA_UET_PDS_ACK_CACK_PSN_WIDTH 32
#define AMOEBA_UET_PDS_ACK_SPDCID_OFFSET 64
#define AMOEBA_UET_PDS_ACK_SPDCID_WIDTH 16
#define AMOEBA_UET_PDS_ACK_DPDCID_OFFSET 80
#define AMOEBA_UET_PDS_ACK_DPDCID_WIDTH 16

/* Congestion state behind the PDS header of an ACK_CC, which is accepted only. */
#define AMOEBA_UET_CONGESTION_STATE_SIZE 20
#define AMOEBA_UET_CONGESTION_STATE_CC_TYPE_OFFSET 0
#define AMOEBA_UET_CONGESTION_STATE_CC_TYPE_WIDTH 4
#define AMOEBA_UET_CONGESTION_STATE_CC_FLAGS_OFFSET 4
#define AMOEBA_UET_CONGESTION_STATE_CC_FLAGS_WIDTH 4
#define AMOEBA_UET_CONGESTION_STATE_MPR_OFFSET 8
#define AMOEBA_UET_CONGESTION_STATE_MPR_WIDTH 8
#define AMOEBA_UET_CONGESTION_STATE_SACK_PSN_OFFSET_OFFSET 16
#define AMOEBA_UET_CONGESTION_STATE_SACK_PSN_OFFSET_WIDTH 16
#define AMOEBA_UET_CONGESTION_STATE_SACK_BITMAP_OFFSET 32
#define AMOEBA_UET_CONGESTION_STATE_SACK_BITMAP_WIDTH 64
#define AMOEBA_UET_CONGESTION_STATE_ACK_CC_STATE_OFFSET 96
#define AMOEBA_UET_CONGESTION_STATE_ACK_CC_STATE_WIDTH 64

/* PDS header of a negative acknowledgement; nothing but the CRC follows. */
#define AMOEBA_UET_PDS_NACK_SIZE 16
#define AMOEBA_UET_PDS_NACK_TYPE_OFFSET 0
#define AMOEBA_UET_PDS_NACK_TYPE_WIDTH 5
#define AMOEBA_UET_PDS_NACK_NEXT_HEADER_OFFSET 5
#define AMOEBA_UET_PDS_NACK_NEXT_HEADER_WIDTH 4
#define AMOEBA_UET_PDS_NACK_FLAGS_OFFSET 9
#define AMOEBA_UET_PDS_NACK_FLAGS_WIDTH 7
#define AMOEBA_UET_PDS_NACK_NACK_CODE_OFFSET 16
#define AMOEBA_UET_PDS_NACK_NACK_CODE_WIDTH 8
#define AMOEBA_UET_PDS_NACK_VENDOR_CODE_OFFSET 24
#define AMOEBA_UET_PDS_NACK_VENDOR_CODE_WIDTH 8
#define AMOEBA_UET_PDS_NACK_NACK_PSN_OFFSET 32
#define AMOEBA_UET_PDS_NACK_NACK_PSN_WIDTH 32
#define AMOEBA_UET_PDS_NACK_SPDCID_OFFSET 64
#define AMOEBA_UET_PDS_NACK_SPDCID_WIDTH 16
#define AMOEBA_UET_PDS_NACK_DPDCID_OFFSET 80
#define AMOEBA_UET_PDS_NACK_DPDCID_WIDTH 16
#define AMOEBA_UET_PDS_NACK_PAYLOAD_OFFSET 96
#define AMOEBA_UET_PDS_NACK_PAYLOAD_WIDTH 32

/* PDS header of a control packet; nothing but the CRC follows. */
#define AMOEBA_UET_PDS_CONTROL_SIZE 16
#define AMOEBA_UET_PDS_CONTROL_TYPE_OFFSET 0
#define AMOEBA_UET_PDS_CONTROL_TYPE_WIDTH 5
#define AMOEBA_UET_PDS_CONTROL_CONTROL_TYPE_OFFSET 5
#define AMOEBA_UET_PDS_CONTROL_CONTROL_TYPE_WIDTH 4
#define AMOEBA_UET_PDS_CONTROL_FLAGS_OFFSET 9
#define AMOEBA_UET_PDS_CONTROL_FLAGS_WIDTH 7
#define AMOEBA_UET_PDS_CONTROL_PROBE_OPAQUE_OFFSET 16
#define AMOEBA_UET_PDS_CONTROL_PROBE_OPAQUE_WIDTH 16
#define AMOEBA_UET_PDS_CONTROL_PSN_OFFSET 32
#define AMOEBA_UET_PDS_CONTROL_PSN_WIDTH 32
#define AMOEBA_UET_PDS_CONTROL_SPDCID_OFFSET 64
#define AMOEBA_UET_PDS_CONTROL_SPDCID_WIDTH 16
#define AMOEBA_UET_PDS_CONTROL_DPDCID_OFFSET 80
#define AMOEBA_UET_PDS_CONTROL_DPDCID_WIDTH 16
#define AMOEBA_UET_PDS_CONTROL_PAYLOAD_OFFSET 96
#define AMOEBA_UET_PDS_CONTROL_PAYLOAD_WIDTH 32

/* SES standard request header, of a packet with START. */
#define AMOEBA_UET_SES_REQUEST_SIZE 44
#define AMOEBA_UET_SES_REQUEST_OPCODE_OFFSET 2
#define AMOEBA_UET_SES_REQUEST_OPCODE_WIDTH 6
#define AMOEBA_UET_SES_REQUEST_VERSION_OFFSET 8
#define AMOEBA_UET_SES_REQUEST_VERSION_WIDTH 2
#define AMOEBA_UET_SES_REQUEST_FLAGS_OFFSET 10
#define AMOEBA_UET_SES_REQUEST_FLAGS_WIDTH 6
#define AMOEBA_UET_SES_REQUEST_MESSAGE_ID_OFFSET 16
#define AMOEBA_UET_SES_REQUEST_MESSAGE_ID_WIDTH 16
#define AMOEBA_UET_SES_REQUEST_RI_GENERATION_OFFSET 32
#define AMOEBA_UET_SES_REQUEST_RI_GENERATION_WIDTH 8
#define AMOEBA_UET_SES_REQUEST_JOB_ID_OFFSET 40
#define AMOEBA_UET_SES_REQUEST_JOB_ID_WIDTH 24
#define AMOEBA_UET_SES_REQUEST_PID_ON_FEP_OFFSET 68
#define AMOEBA_UET_SES_REQUEST_PID_ON_FEP_WIDTH 12
#define AMOEBA_UET_SES_REQUEST_RESOURCE_INDEX_OFFSET 84
#define AMOEBA_UET_SES_REQUEST_RESOURCE_INDEX_WIDTH 12
#define AMOEBA_UET_SES_REQUEST_BUFFER_OFFSET_OFFSET 96
#define AMOEBA_UET_SES_REQUEST_BUFFER_OFFSET_WIDTH 64
#define AMOEBA_UET_SES_REQUEST_INITIATOR_OFFSET 160
#define AMOEBA_UET_SES_REQUEST_INITIATOR_WIDTH 32
#define AMOEBA_UET_SES_REQUEST_MEMORY_KEY_OFFSET 192
#define AMOEBA_UET_SES_REQUEST_MEMORY_KEY_WIDTH 64
#define AMOEBA_UET_SES_REQUEST_HEADER_DATA_OFFSET 256
#define AMOEBA_UET_SES_REQUEST_HEADER_DATA_WIDTH 64
#define AMOEBA_UET_SES_REQUEST_REQUEST_LENGTH_OFFSET 320
#define AMOEBA_UET_SES_REQUEST_REQUEST_LENGTH_WIDTH 32

/* SES standard request header, of a packet without START: the packet's place stands where header_data is. */
#define AMOEBA_UET_SES_REQUEST_PART_SIZE 44
#define AMOEBA_UET_SES_REQUEST_PART_OPCODE_OFFSET 2
#define AMOEBA_UET_SES_REQUEST_PART_OPCODE_WIDTH 6
#define AMOEBA_UET_SES_REQUEST_PART_VERSION_OFFSET 8
#define AMOEBA_UET_SES_REQUEST_PART_VERSION_WIDTH 2
#define AMOEBA_UET_SES_REQUEST_PART_FLAGS_OFFSET 10
#define AMOEBA_UET_SES_REQUEST_PART_FLAGS_WIDTH 6
#define AMOEBA_UET_SES_REQUEST_PART_MESSAGE_ID_OFFSET 16
#define AMOEBA_UET_SES_REQUEST_PART_MESSAGE_ID_WIDTH 16
#define AMOEBA_UET_SES_REQUEST_PART_RI_GENERATION_OFFSET 32
#define AMOEBA_UET_SES_REQUEST_PART_RI_GENERATION_WIDTH 8
#define AMOEBA_UET_SES_REQUEST_PART_JOB_ID_OFFSET 40
#define AMOEBA_UET_SES_REQUEST_PART_JOB_ID_WIDTH 24
#define AMOEBA_UET_SES_REQUEST_PART_PID_ON_FEP_OFFSET 68
#define AMOEBA_UET_SES_REQUEST_PART_PID_ON_FEP_WIDTH 12
#define AMOEBA_UET_SES_REQUEST_PART_RESOURCE_INDEX_OFFSET 84
#define AMOEBA_UET_SES_REQUEST_PART_RESOURCE_INDEX_WIDTH 12
#define AMOEBA_UET_SES_REQUEST_PART_BUFFER_OFFSET_OFFSET 96
#define AMOEBA_UET_SES_REQUEST_PART_BUFFER_OFFSET_WIDTH 64
#define AMOEBA_UET_SES_REQUEST_PART_INITIATOR_OFFSET 160
#define AMOEBA_UET_SES_REQUEST_PART_INITIATOR_WIDTH 32
#define AMOEBA_UET_SES_REQUEST_PART_MEMORY_KEY_OFFSET 192
#define AMOEBA_UET_SES_REQUEST_PART_MEMORY_KEY_WIDTH 64
#define AMOEBA_UET_SES_REQUEST_PART_PAYLOAD_LENGTH_OFFSET 274
#define AMOEBA_UET_SES_REQUEST_PART_PAYLOAD_LENGTH_WIDTH 14
#define AMOEBA_UET_SES_REQUEST_PART_MESSAGE_OFFSET_OFFSET 288
#define AMOEBA_UET_SES_REQUEST_PART_MESSAGE_OFFSET_WIDTH 32
#define AMOEBA_UET_SES_REQUEST_PART_REQUEST_LENGTH_OFFSET 320
#define AMOEBA_UET_SES_REQUEST_PART_REQUEST_LENGTH_WIDTH 32

/* Follows the SES header of every atomic. */
#define AMOEBA_UET_ATOMIC_EXTENSION_SIZE 4
#define AMOEBA_UET_ATOMIC_EXTENSION_OPCODE_OFFSET 0
#define AMOEBA_UET_ATOMIC_EXTENSION_OPCODE_WIDTH 8
#define AMOEBA_UET_ATOMIC_EXTENSION_DATATYPE_OFFSET 8
#define AMOEBA_UET_ATOMIC_EXTENSION_DATATYPE_WIDTH 8
#define AMOEBA_UET_ATOMIC_EXTENSION_SEMANTIC_CONTROL_OFFSET 16
#define AMOEBA_UET_ATOMIC_EXTENSION_SEMANTIC_CONTROL_WIDTH 8

/* SES response without data. */
#define AMOEBA_UET_SES_RESPONSE_SIZE 12
#define AMOEBA_UET_SES_RESPONSE_LIST_OFFSET 0
#define AMOEBA_UET_SES_RESPONSE_LIST_WIDTH 2
#define AMOEBA_UET_SES_RESPONSE_OPCODE_OFFSET 2
#define AMOEBA_UET_SES_RESPONSE_OPCODE_WIDTH 6
#define AMOEBA_UET_SES_RESPONSE_VERSION_OFFSET 8
#define AMOEBA_UET_SES_RESPONSE_VERSION_WIDTH 2
#define AMOEBA_UET_SES_RESPONSE_RETURN_CODE_OFFSET 10
#define AMOEBA_UET_SES_RESPONSE_RETURN_CODE_WIDTH 6
#define AMOEBA_UET_SES_RESPONSE_MESSAGE_ID_OFFSET 16
#define AMOEBA_UET_SES_RESPONSE_MESSAGE_ID_WIDTH 16
#define AMOEBA_UET_SES_RESPONSE_RI_GENERATION_OFFSET 32
#define AMOEBA_UET_SES_RESPONSE_RI_GENERATION_WIDTH 8
#define AMOEBA_UET_SES_RESPONSE_JOB_ID_OFFSET 40
#define AMOEBA_UET_SES_RESPONSE_JOB_ID_WIDTH 24
#define AMOEBA_UET_SES_RESPONSE_MODIFIED_LENGTH_OFFSET 64
#define AMOEBA_UET_SES_RESPONSE_MODIFIED_LENGTH_WIDTH 32

/* SES response with data, in an ACK or in a request of the target. */
#define AMOEBA_UET_SES_RESPONSE_DATA_SIZE 20
#define AMOEBA_UET_SES_RESPONSE_DATA_LIST_OFFSET 0
#define AMOEBA_UET_SES_RESPONSE_DATA_LIST_WIDTH 2
#define AMOEBA_UET_SES_RESPONSE_DATA_OPCODE_OFFSET 2
#define AMOEBA_UET_SES_RESPONSE_DATA_OPCODE_WIDTH 6
#define AMOEBA_UET_SES_RESPONSE_DATA_VERSION_OFFSET 8
#define AMOEBA_UET_SES_RESPONSE_DATA_VERSION_WIDTH 2
#define AMOEBA_UET_SES_RESPONSE_DATA_RETURN_CODE_OFFSET 10
#define AMOEBA_UET_SES_RESPONSE_DATA_RETURN_CODE_WIDTH 6
#define AMOEBA_UET_SES_RESPONSE_DATA_MESSAGE_ID_OFFSET 16
#define AMOEBA_UET_SES_RESPONSE_DATA_MESSAGE_ID_WIDTH 16
#define AMOEBA_UET_SES_RESPONSE_DATA_RI_GENERATION_OFFSET 32
#define AMOEBA_UET_SES_RESPONSE_DATA_RI_GENERATION_WIDTH 8
#define AMOEBA_UET_SES_RESPONSE_DATA_JOB_ID_OFFSET 40
#define AMOEBA_UET_SES_RESPONSE_DATA_JOB_ID_WIDTH 24
#define AMOEBA_UET_SES_RESPONSE_DATA_READ_REQUEST_MESSAGE_ID_OFFSET 64
#define AMOEBA_UET_SES_RESPONSE_DATA_READ_REQUEST_MESSAGE_ID_WIDTH 16
#define AMOEBA_UET_SES_RESPONSE_DATA_PAYLOAD_LENGTH_OFFSET 82
#define AMOEBA_UET_SES_RESPONSE_DATA_PAYLOAD_LENGTH_WIDTH 14
#define AMOEBA_UET_SES_RESPONSE_DATA_MODIFIED_LENGTH_OFFSET 96
#define AMOEBA_UET_SES_RESPONSE_DATA_MODIFIED_LENGTH_WIDTH 32
#define AMOEBA_UET_SES_RESPONSE_DATA_MESSAGE_OFFSET_OFFSET 128
#define AMOEBA_UET_SES_RESPONSE_DATA_MESSAGE_OFFSET_WIDTH 32

/* Of UCX's API, little-endian: OFFSET is in bits from the least significant bit of the first byte. */

/* The immediate data of every message between drivers. */
#define AMOEBA_UCP_MESSAGE_SIZE 8
#define AMOEBA_UCP_MESSAGE_KIND_OFFSET 0
#define AMOEBA_UCP_MESSAGE_KIND_WIDTH 4
#define AMOEBA_UCP_MESSAGE_FLAGS_OFFSET 4
#define AMOEBA_UCP_MESSAGE_FLAGS_WIDTH 4
#define AMOEBA_UCP_MESSAGE_AM_ID_OFFSET 8
#define AMOEBA_UCP_MESSAGE_AM_ID_WIDTH 16
#define AMOEBA_UCP_MESSAGE_HEADER_LENGTH_OFFSET 24
#define AMOEBA_UCP_MESSAGE_HEADER_LENGTH_WIDTH 16
#define AMOEBA_UCP_MESSAGE_ENDPOINT_OFFSET 40
#define AMOEBA_UCP_MESSAGE_ENDPOINT_WIDTH 24

/* Begin of an AM_LONG: where the data is read, as in a RENDEZVOUS, and how much it is. */
#define AMOEBA_UCP_LONG_MESSAGE_SIZE 40
#define AMOEBA_UCP_LONG_MESSAGE_KEY_OFFSET 0
#define AMOEBA_UCP_LONG_MESSAGE_KEY_WIDTH 64
#define AMOEBA_UCP_LONG_MESSAGE_TOKEN_OFFSET 64
#define AMOEBA_UCP_LONG_MESSAGE_TOKEN_WIDTH 64
#define AMOEBA_UCP_LONG_MESSAGE_MAC_LOW_OFFSET 128
#define AMOEBA_UCP_LONG_MESSAGE_MAC_LOW_WIDTH 32
#define AMOEBA_UCP_LONG_MESSAGE_MAC_HIGH_OFFSET 160
#define AMOEBA_UCP_LONG_MESSAGE_MAC_HIGH_WIDTH 16
#define AMOEBA_UCP_LONG_MESSAGE_RESOURCE_INDEX_OFFSET 176
#define AMOEBA_UCP_LONG_MESSAGE_RESOURCE_INDEX_WIDTH 16
#define AMOEBA_UCP_LONG_MESSAGE_JOB_ID_OFFSET 192
#define AMOEBA_UCP_LONG_MESSAGE_JOB_ID_WIDTH 32
#define AMOEBA_UCP_LONG_MESSAGE_PID_ON_FEP_OFFSET 224
#define AMOEBA_UCP_LONG_MESSAGE_PID_ON_FEP_WIDTH 16
#define AMOEBA_UCP_LONG_MESSAGE_RELATIVE_OFFSET 240
#define AMOEBA_UCP_LONG_MESSAGE_RELATIVE_WIDTH 16
#define AMOEBA_UCP_LONG_MESSAGE_LENGTH_OFFSET 256
#define AMOEBA_UCP_LONG_MESSAGE_LENGTH_WIDTH 64

/* With what an active message has ended that nobody read. */
#define AMOEBA_UCP_ANSWER_SIZE 16
#define AMOEBA_UCP_ANSWER_TOKEN_OFFSET 0
#define AMOEBA_UCP_ANSWER_TOKEN_WIDTH 64
#define AMOEBA_UCP_ANSWER_STATUS_OFFSET 64
#define AMOEBA_UCP_ANSWER_STATUS_WIDTH 8

/* A worker's address, as ucp_worker_get_address packs it. */
#define AMOEBA_UCP_ADDRESS_SIZE 40
#define AMOEBA_UCP_ADDRESS_MAGIC_OFFSET 0
#define AMOEBA_UCP_ADDRESS_MAGIC_WIDTH 16
#define AMOEBA_UCP_ADDRESS_VERSION_OFFSET 16
#define AMOEBA_UCP_ADDRESS_VERSION_WIDTH 8
#define AMOEBA_UCP_ADDRESS_FLAGS_OFFSET 24
#define AMOEBA_UCP_ADDRESS_FLAGS_WIDTH 8
#define AMOEBA_UCP_ADDRESS_UID_OFFSET 32
#define AMOEBA_UCP_ADDRESS_UID_WIDTH 64
#define AMOEBA_UCP_ADDRESS_MAC_OFFSET 96
#define AMOEBA_UCP_ADDRESS_MAC_WIDTH 48
#define AMOEBA_UCP_ADDRESS_IP_OFFSET 144
#define AMOEBA_UCP_ADDRESS_IP_WIDTH 32
#define AMOEBA_UCP_ADDRESS_JOB_ID_OFFSET 176
#define AMOEBA_UCP_ADDRESS_JOB_ID_WIDTH 24
#define AMOEBA_UCP_ADDRESS_PID_ON_FEP_OFFSET 200
#define AMOEBA_UCP_ADDRESS_PID_ON_FEP_WIDTH 16
#define AMOEBA_UCP_ADDRESS_MAIN_CONTEXT_OFFSET 216
#define AMOEBA_UCP_ADDRESS_MAIN_CONTEXT_WIDTH 16
#define AMOEBA_UCP_ADDRESS_MESSAGE_CONTEXT_OFFSET 232
#define AMOEBA_UCP_ADDRESS_MESSAGE_CONTEXT_WIDTH 16
#define AMOEBA_UCP_ADDRESS_LINK_HOST_OFFSET 248
#define AMOEBA_UCP_ADDRESS_LINK_HOST_WIDTH 32
#define AMOEBA_UCP_ADDRESS_LINK_PORT_OFFSET 280
#define AMOEBA_UCP_ADDRESS_LINK_PORT_WIDTH 16

/* A key of memory, as ucp_rkey_pack packs it. */
#define AMOEBA_UCP_REMOTE_KEY_SIZE 40
#define AMOEBA_UCP_REMOTE_KEY_MAGIC_OFFSET 0
#define AMOEBA_UCP_REMOTE_KEY_MAGIC_WIDTH 16
#define AMOEBA_UCP_REMOTE_KEY_VERSION_OFFSET 16
#define AMOEBA_UCP_REMOTE_KEY_VERSION_WIDTH 8
#define AMOEBA_UCP_REMOTE_KEY_RIGHTS_OFFSET 24
#define AMOEBA_UCP_REMOTE_KEY_RIGHTS_WIDTH 8
#define AMOEBA_UCP_REMOTE_KEY_UID_OFFSET 64
#define AMOEBA_UCP_REMOTE_KEY_UID_WIDTH 64
#define AMOEBA_UCP_REMOTE_KEY_KEY_OFFSET 128
#define AMOEBA_UCP_REMOTE_KEY_KEY_WIDTH 64
#define AMOEBA_UCP_REMOTE_KEY_ADDRESS_OFFSET 192
#define AMOEBA_UCP_REMOTE_KEY_ADDRESS_WIDTH 64
#define AMOEBA_UCP_REMOTE_KEY_LENGTH_OFFSET 256
#define AMOEBA_UCP_REMOTE_KEY_LENGTH_WIDTH 64

#endif
