// C interface of one Verilated NIC with its host memory, link and register bus. Python calls it with ctypes.
//
// Cycles count rising clock edges since reset. Calls on different instances may run in different threads;
// calls on one instance must not overlap. Pointers returned are valid until the next call on the instance.

#pragma once

#include <cstdint>

extern "C" {

struct amoeba_options {
    uint32_t host_latency;  // cycles from a read address' transfer to its first data beat; also last W to B
    uint32_t stall;         // 0: never; n: every handshake of the harness is withheld in n of 256 cycles, at random
    uint64_t seed;          // of the random stalls
    // Of a NIC on PCI Express; bytes. Others look at none of these.
    uint32_t max_payload;
    uint32_t max_read_request;
    uint32_t read_completion_boundary;
    uint32_t extended_tags;  // whether there are 256 tags instead of 32
};

struct amoeba_fault {
    uint64_t address;
    uint64_t size;  // bytes
    uint32_t write;
    uint32_t requester;  // who asked: AxUSER[7:0] of the refused burst
    int32_t context;     // for which context: AxUSER[15:8]; -1: the bus does not tell
};

struct amoeba_trace_event {
    uint64_t cycle;
    uint64_t data;
    uint32_t stage;  // index for amoeba_stage_name
    uint32_t reserved;
};

// From `cycle` on a channel is in this state: 0 idle, 1 a beat is transferred in each cycle, 2 one waits (valid without
// ready). Channels are numbered as in Buses (buses.h).
struct amoeba_bus_event {
    uint64_t cycle;
    uint32_t channel;
    uint32_t state;
};

// A transaction layer packet of a NIC on PCI Express.
struct amoeba_packet {
    uint64_t cycle;    // in which its first beat is transferred
    uint64_t address;  // host address, or offset in a BAR, of the first byte that it is about
    uint64_t data;     // the payload of what has a DW or two; 0 of others
    uint32_t size;     // bytes that it is about, from the first enabled one to the last
    uint32_t kind;     // PacketKind in amoeba_model.tlp
    uint32_t tag;      // of reads and completions
    uint32_t user;     // who asked, in the NIC; of an access to a BAR, which one
    uint32_t status;   // of completions
    uint32_t reserved;
};

struct amoeba_nic;

// What the design is: bits per beat, bits of a register offset, number of trace stages and their names.
uint32_t amoeba_data_width();
uint32_t amoeba_bar_bits();
uint32_t amoeba_stage_count();
const char* amoeba_stage_name(uint32_t index);

// The new instance has been reset; its clock reads 0.
amoeba_nic* amoeba_create(const amoeba_options* options);
void amoeba_destroy(amoeba_nic* nic);
// Resets design, buses and queues; grants stay.
void amoeba_reset(amoeba_nic* nic);
// The same without resetting the clock: what PCIe calls a function level reset.
void amoeba_function_reset(amoeba_nic* nic);

uint64_t amoeba_cycles(const amoeba_nic* nic);
// The latest cycle in which a bus was in use, or an interrupt raised.
uint64_t amoeba_last_activity(const amoeba_nic* nic);
// Runs while the clock reads less than `cycle`. Returns 0, or -1 if the design broke a bus protocol: then
// amoeba_error says how, and no call but amoeba_reset and amoeba_destroy makes sense any more.
int amoeba_run_until(amoeba_nic* nic, uint64_t cycle);
const char* amoeba_error(const amoeba_nic* nic);

// Queues a register write. It happens, in order with all other accesses, as cycles run.
void amoeba_bar_write(amoeba_nic* nic, uint32_t offset, uint32_t value);
// Runs until all queued writes and then this read have been answered, at most `limit` cycles.
// Returns 0, the AXI response (2 or 3) of a refused read, 4 if the limit was reached, or -1 as above.
int amoeba_bar_read(amoeba_nic* nic, uint32_t offset, uint32_t* value, uint64_t limit);
// Takes the oldest refused write not taken yet. Returns whether there was one.
int amoeba_take_refused_write(amoeba_nic* nic, uint32_t* offset, uint32_t* response);

// Host memory that a context of the NIC (-1: all) may access at `address`; it lies at `host` in this process. Grants
// that overlap must have the same distance between the two. amoeba_revoke returns whether there was such a grant.
void amoeba_grant(amoeba_nic* nic, uint64_t address, uint64_t length, int writable, uint64_t host, int context);
int amoeba_revoke(amoeba_nic* nic, uint64_t address, uint64_t length, int context);
// Takes the oldest fault not taken yet. Returns whether there was one.
int amoeba_take_fault(amoeba_nic* nic, amoeba_fault* fault);

// Queues a frame whose first beat is on offer in `cycle`, or as soon after it as the link is free.
void amoeba_deliver(amoeba_nic* nic, const uint8_t* data, uint32_t size, uint64_t cycle);
// Takes the oldest frame sent. Returns its bytes and sets size and the cycle of its last beat, or null.
const uint8_t* amoeba_take_frame(amoeba_nic* nic, uint32_t* size, uint64_t* cycle);

// From `cycle` on lets no frame begin to leave, or again all. In order of cycles.
void amoeba_pause_transmission(amoeba_nic* nic, uint64_t cycle, int stop);
// How many bytes of frames that have arrived the MAC holds; others are dropped, and amoeba_overflowed counts them. When
// more than `stop_above` are held the link partner is told to stop, and to go on when no more than `go_at` are. All are
// 2^64 - 1 in the beginning: no bound, and nobody is told.
void amoeba_bound_reception(amoeba_nic* nic, uint64_t space, uint64_t stop_above, uint64_t go_at);
uint64_t amoeba_overflowed(const amoeba_nic* nic);
// Takes the oldest of what the link partner was told. Returns whether there was something.
int amoeba_take_pause(amoeba_nic* nic, uint64_t* cycle, int* stop);

// Interrupt vectors raised since the last call, one bit each.
uint64_t amoeba_take_interrupts(amoeba_nic* nic);

void amoeba_trace_enable(amoeba_nic* nic, int enabled);
// Takes all events recorded. Returns the first of `count` in the order of their cycles.
const amoeba_trace_event* amoeba_take_trace(amoeba_nic* nic, uint64_t* count);

// Takes what the buses did while tracing was enabled. Returns the first of `count`, in the order of their cycles.
const amoeba_bus_event* amoeba_take_bus_events(amoeba_nic* nic, uint64_t* count);

// Takes the packets recorded while tracing was enabled. Returns the first of `count`, in the order of their cycles. A
// NIC that is not on PCI Express has none.
const amoeba_packet* amoeba_take_packets(amoeba_nic* nic, uint64_t* count);

// Starts a waveform file, VCD or FST as the library was built (one time unit per half cycle). Returns 0, or -1 if it
// cannot be written, or the build has no waveforms.
int amoeba_waves_start(amoeba_nic* nic, const char* path);
void amoeba_waves_stop(amoeba_nic* nic);

}  // extern "C"
