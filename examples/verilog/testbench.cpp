// The NIC in a testbench of plain C++: read its registers, set up a context, a key and a peer, which is the NIC itself,
// and have it execute a fetch-add. The frames that it sends are returned to it: the link is a loop. No Python, no
// driver: registers and descriptor are those of amoeba.h, buses those of AXI.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "amoeba.h"
#include "verilated.h"

constexpr unsigned BEAT = 16;  // bytes of the datapath: 128 bits
constexpr uint64_t HOST_BASE = 0x10000000;
constexpr unsigned HOST_SIZE = 0x10000;
constexpr uint64_t RING = HOST_BASE, COMPLETIONS = HOST_BASE + 0x1000, OPERAND = HOST_BASE + 0x2000,
                   RESULT = HOST_BASE + 0x3000, WORD = HOST_BASE + 0x4008;
constexpr uint64_t KEY = 0x123456789abcdef0;
constexpr unsigned PATIENCE = 20000;  // cycles

static void check(bool right, const char* what) {
    if (right) return;
    std::fprintf(stderr, "wrong: %s\n", what);
    std::exit(1);
}

// The NIC, a clock, and what is connected to its ports. Verilator writes "__" in names as "___05F".
struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vtop> nic{new Vtop(&context)};
    uint64_t cycle = 0;
    std::vector<uint8_t> host = std::vector<uint8_t>(HOST_SIZE);
    struct Burst {
        uint64_t address;
        unsigned beats;
        uint8_t id;
    };
    std::deque<Burst> reads, writes;
    std::deque<uint8_t> written;  // IDs of bursts that are to be answered
    std::vector<uint8_t> frame;  // the one that the NIC is sending
    std::deque<std::vector<uint8_t>> looped;  // those that go back to it
    size_t taken = 0;  // bytes of the first of these that it has taken
    unsigned frames = 0;

    Bench() {
        nic->rst = 1;
        for (int i = 0; i < 4; i++) tick();
        nic->rst = 0;
        nic->host___05Farready = nic->host___05Fawready = nic->host___05Fwready = 1;
        nic->tx___05Ftready = nic->bar___05Frready = nic->bar___05Fbready = 1;
        tick();
    }

    // One clock cycle. Transfers are those of the rising edge; what they change is driven after it.
    void tick() {
        nic->clk = 0;
        nic->eval();
        const bool ar = nic->host___05Farvalid && nic->host___05Farready;
        const bool aw = nic->host___05Fawvalid && nic->host___05Fawready;
        const bool w = nic->host___05Fwvalid && nic->host___05Fwready;
        const bool r = nic->host___05Frvalid && nic->host___05Frready;
        const bool b = nic->host___05Fbvalid && nic->host___05Fbready;
        const bool rx = nic->rx___05Ftvalid && nic->rx___05Ftready;
        if (ar) {
            reads.push_back({nic->host___05Faraddr, nic->host___05Farlen + 1u, nic->host___05Farid});
            std::printf("%6lu  DMA read of %u beats at %#lx\n", cycle, reads.back().beats, reads.back().address);
        }
        if (aw) {
            writes.push_back({nic->host___05Fawaddr, nic->host___05Fawlen + 1u, nic->host___05Fawid});
            std::printf("%6lu  DMA write of %u beats at %#lx\n", cycle, writes.back().beats, writes.back().address);
        }
        if (w) write_beat();
        if (nic->tx___05Ftvalid && nic->tx___05Ftready) take_beat();
        nic->clk = 1;
        nic->eval();
        if (r) next_beat();
        if (b) written.pop_front();
        if (rx) give_beat();
        drive();
        cycle++;
    }

    uint8_t* at(uint64_t address) {
        check(address >= HOST_BASE && address - HOST_BASE <= HOST_SIZE - BEAT, "a DMA access outside host memory");
        return host.data() + (address - HOST_BASE);
    }

    void write_beat() {
        check(!writes.empty(), "write data without an address");
        Burst& burst = writes.front();
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&nic->host___05Fwdata[0]);
        uint8_t* line = at(burst.address & ~uint64_t(BEAT - 1));
        for (unsigned i = 0; i < BEAT; i++)
            if (nic->host___05Fwstrb >> i & 1) line[i] = data[i];
        burst.address = (burst.address & ~uint64_t(BEAT - 1)) + BEAT;
        if (--burst.beats) return;
        written.push_back(burst.id);
        writes.pop_front();
    }

    void next_beat() {
        Burst& burst = reads.front();
        burst.address = (burst.address & ~uint64_t(BEAT - 1)) + BEAT;
        if (!--burst.beats) reads.pop_front();
    }

    void take_beat() {
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&nic->tx___05Ftdata[0]);
        for (unsigned i = 0; i < BEAT; i++)
            if (nic->tx___05Ftkeep >> i & 1) frame.push_back(data[i]);
        if (!nic->tx___05Ftlast) return;
        std::printf("%6lu  frame of %zu bytes:", cycle, frame.size());
        for (size_t i = 0; i < frame.size(); i++) std::printf("%s%02x", i % 16 ? " " : "\n        ", frame[i]);
        std::printf("\n");
        frames++;
        looped.push_back(std::move(frame));
        frame.clear();
    }

    void give_beat() {
        taken += BEAT;
        if (taken < looped.front().size()) return;
        looped.pop_front();
        taken = 0;
    }

    void drive() {
        nic->host___05Frvalid = !reads.empty();
        if (!reads.empty()) {
            const Burst& burst = reads.front();
            std::memcpy(&nic->host___05Frdata[0], at(burst.address & ~uint64_t(BEAT - 1)), BEAT);
            nic->host___05Frid = burst.id;
            nic->host___05Frlast = burst.beats == 1;
            nic->host___05Frresp = 0;
        }
        nic->host___05Fbvalid = !written.empty();
        if (!written.empty()) nic->host___05Fbid = written.front();
        nic->rx___05Ftvalid = !looped.empty();
        if (!looped.empty()) {
            const size_t left = looped.front().size() - taken, count = left < BEAT ? left : BEAT;
            std::memcpy(&nic->rx___05Ftdata[0], looped.front().data() + taken, count);
            nic->rx___05Ftkeep = (1u << count) - 1;
            nic->rx___05Ftlast = left <= BEAT;
        }
    }

    uint64_t word(uint64_t address) {
        uint64_t value;
        std::memcpy(&value, at(address), sizeof value);
        return value;
    }

    void set_word(uint64_t address, uint64_t value) { std::memcpy(at(address), &value, sizeof value); }

    uint32_t read(uint32_t offset) {
        nic->bar___05Faraddr = offset;
        nic->bar___05Farvalid = 1;
        for (unsigned i = 0; i < PATIENCE; i++) {
            nic->eval();
            const bool accepted = nic->bar___05Farvalid && nic->bar___05Farready;
            const bool answered = nic->bar___05Frvalid;
            const uint32_t value = nic->bar___05Frdata;
            tick();
            if (accepted) nic->bar___05Farvalid = 0;
            if (answered) return value;
        }
        check(false, "no answer to a register read");
        return 0;
    }

    void write(uint32_t offset, uint32_t value) {
        nic->bar___05Fawaddr = offset;
        nic->bar___05Fwdata = value;
        nic->bar___05Fwstrb = 0xF;
        nic->bar___05Fawvalid = nic->bar___05Fwvalid = 1;
        for (unsigned i = 0; i < PATIENCE; i++) {
            nic->eval();
            const bool address = nic->bar___05Fawvalid && nic->bar___05Fawready;
            const bool data = nic->bar___05Fwvalid && nic->bar___05Fwready;
            const bool answered = nic->bar___05Fbvalid;
            tick();
            if (address) nic->bar___05Fawvalid = 0;
            if (data) nic->bar___05Fwvalid = 0;
            if (answered) return;
        }
        check(false, "no answer to a register write");
    }

    // Where the block of a type begins: the BAR is a list of them.
    uint32_t block(uint32_t type) {
        uint32_t start = 0;
        do {
            if (read(start + AMOEBA_BLOCK_TYPE) == type) return start;
            start = read(start + AMOEBA_BLOCK_NEXT);
        } while (start);
        check(false, "a block of registers is missing");
        return 0;
    }
};

// The NIC's own address, 02:00:00:00:00:01 and 10.0.0.1, and a context with its rings.
static void open_context(Bench& bench) {
    const uint32_t device = bench.block(AMOEBA_DEVICE_TYPE);
    bench.write(device + AMOEBA_DEVICE_MAC_LOW, 1);
    bench.write(device + AMOEBA_DEVICE_MAC_HIGH, 0x0200);
    bench.write(device + AMOEBA_DEVICE_IP, 0x0A000001);
    const uint32_t contexts = bench.block(AMOEBA_CONTEXTS_TYPE);
    bench.write(contexts + AMOEBA_CONTEXTS_TRANSMIT_BASE_LOW, RING);
    bench.write(contexts + AMOEBA_CONTEXTS_TRANSMIT_SIZE, 4);
    bench.write(contexts + AMOEBA_CONTEXTS_COMPLETION_BASE_LOW, COMPLETIONS);
    bench.write(contexts + AMOEBA_CONTEXTS_COMPLETION_SIZE, 4);
    bench.write(contexts + AMOEBA_CONTEXTS_DOMAIN, 1);
    bench.write(contexts + AMOEBA_CONTEXTS_JOB_ID, 0xABCDE);
    bench.write(contexts + AMOEBA_CONTEXTS_PID_ON_FEP, 1);
    bench.write(contexts + AMOEBA_CONTEXTS_CONTROL, AMOEBA_CONTEXT_CONTROL_ENABLE);
}

// A key by which peers read and write the eight bytes at WORD.
static void register_word(Bench& bench) {
    const uint32_t slots = bench.read(bench.block(AMOEBA_DEVICE_TYPE) + AMOEBA_DEVICE_KEYS);
    const uint32_t keys = bench.block(AMOEBA_KEYS_TYPE);
    bench.write(keys + AMOEBA_KEYS_KEY_LOW, static_cast<uint32_t>(KEY));
    bench.write(keys + AMOEBA_KEYS_KEY_HIGH, KEY >> 32);
    bench.write(keys + AMOEBA_KEYS_BASE_LOW, WORD);
    bench.write(keys + AMOEBA_KEYS_LENGTH_LOW, sizeof(uint64_t));
    bench.write(keys + AMOEBA_KEYS_DOMAIN, 1);
    bench.write(keys + AMOEBA_KEYS_FLAGS, AMOEBA_KEY_FLAGS_VALID | AMOEBA_KEY_FLAGS_REMOTE_READ |
                                              AMOEBA_KEY_FLAGS_REMOTE_WRITE | AMOEBA_KEY_FLAGS_VIRTUAL);
    bench.write(keys + AMOEBA_KEYS_STORE, amoeba_key_slot(KEY, 0, slots));
}

// Peer 0 is the NIC itself.
static void add_peer(Bench& bench) {
    const uint32_t peers = bench.block(AMOEBA_PEERS_TYPE);
    bench.write(peers + AMOEBA_PEERS_MAC_LOW, 1);
    bench.write(peers + AMOEBA_PEERS_MAC_HIGH, 0x0200);
    bench.write(peers + AMOEBA_PEERS_IP, 0x0A000001);
    bench.write(peers + AMOEBA_PEERS_JOB_ID, 0xABCDE);
    bench.write(peers + AMOEBA_PEERS_PID_ON_FEP, 1);
    bench.write(peers + AMOEBA_PEERS_INITIAL_PSN, 0x1000);
    bench.write(peers + AMOEBA_PEERS_ENTROPY, 0xC000);
    bench.write(peers + AMOEBA_PEERS_FLAGS, AMOEBA_PEER_FLAGS_VALID);
    bench.write(peers + AMOEBA_PEERS_STORE, 0);
}

// A descriptor in the ring and its operand in memory; then the doorbell.
static void post_fetch_add(Bench& bench, uint64_t operand, uint64_t context) {
    bench.set_word(OPERAND, operand);
    amoeba_tx_descriptor descriptor = {};
    descriptor.opcode = AMOEBA_DESCRIPTOR_OPCODE_FETCH_ATOMIC;
    descriptor.op = AMOEBA_OP_FI_SUM;
    descriptor.datatype = AMOEBA_DATATYPE_FI_UINT64;
    descriptor.flags = AMOEBA_DESCRIPTOR_FLAGS_COMPLETION;
    descriptor.length = sizeof operand;
    descriptor.remote_address = WORD;
    descriptor.remote_key = KEY;
    descriptor.local = OPERAND;
    descriptor.result = RESULT;
    descriptor.context = context;
    std::memcpy(bench.at(RING), &descriptor, sizeof descriptor);
    std::printf("%6lu  doorbell\n", bench.cycle);
    bench.write(AMOEBA_DOORBELL_PAGE + AMOEBA_DOORBELL_TRANSMIT_TAIL, 1);
}

// The first entry of the completion ring, which is valid once the NIC has turned its phase bit.
static amoeba_completion completion(Bench& bench) {
    amoeba_completion entry;
    for (unsigned i = 0; i < PATIENCE; i++) {
        std::memcpy(&entry, bench.at(COMPLETIONS), sizeof entry);
        if (entry.flags & AMOEBA_COMPLETION_FLAGS_PHASE) return entry;
        bench.tick();
    }
    check(false, "no completion has come");
    return entry;
}

int main(int argc, char** argv) {
    Bench bench;
    bench.context.commandArgs(argc, argv);

    const uint32_t device = bench.block(AMOEBA_DEVICE_TYPE);
    check(bench.read(device + AMOEBA_DEVICE_ABI_VERSION) == AMOEBA_ABI_VERSION, "the ABI's version");
    check(bench.read(device + AMOEBA_DEVICE_DATA_WIDTH) == 8 * BEAT, "the datapath's width");
    std::printf("%6lu  a NIC of %u bits, %u context(s), %u peers\n", bench.cycle, 8 * BEAT,
                bench.read(device + AMOEBA_DEVICE_CONTEXTS), bench.read(device + AMOEBA_DEVICE_PEERS));
    open_context(bench);
    register_word(bench);
    add_peer(bench);

    const uint64_t before = 0x8000000000000003, operand = 5, context = 0xC0FFEE;
    bench.set_word(WORD, before);
    post_fetch_add(bench, operand, context);
    const amoeba_completion entry = completion(bench);
    std::printf("%6lu  completion of opcode %u: status %u\n", bench.cycle, entry.opcode, entry.status);
    check(entry.opcode == AMOEBA_DESCRIPTOR_OPCODE_FETCH_ATOMIC, "the completion's opcode");
    check(entry.status == AMOEBA_RETURN_CODE_OK, "the completion's status");
    check(entry.context == context, "the completion's context");
    check(entry.length == sizeof operand, "the completion's length");
    check(bench.frames == 2, "expected two frames: request and answer");
    std::printf("%6lu  fetched %#lx, now %#lx\n", bench.cycle, bench.word(RESULT), bench.word(WORD));
    check(bench.word(RESULT) == before, "the old value in the result buffer");
    check(bench.word(WORD) == before + operand, "the new value in memory");
    const uint32_t counters = bench.block(AMOEBA_COUNTERS_TYPE) + AMOEBA_COUNTERS_VALUE;
    check(bench.read(counters + 4 * AMOEBA_COUNTER_REQUESTS_SENT) == 1, "the counter of requests sent");
    check(bench.read(counters + 4 * AMOEBA_COUNTER_REQUESTS_RECEIVED) == 1, "the counter of requests executed");
    std::printf("%6lu  all as it should be\n", bench.cycle);
    return 0;
}
