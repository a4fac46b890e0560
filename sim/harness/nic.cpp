// One Verilated NIC and everything around it. The design's inputs come from registers (registered_inputs in
// nic_ports.py), and its clock is one edge behind the harness between two cycles. The clock scheme: cycle n is
//
//   drive     the bus models set from their own state what the inputs will be in cycle n
//   eval      the clock rises: cycle n - 1 ends with its own inputs, and those of cycle n hold; outputs settle
//   sample    the bus models see inputs and outputs of cycle n side by side: valid & ready means a transfer
//   eval      the clock falls: nothing hangs on that, so that it costs nothing
//
// Outputs are looked at only in `sample`, inputs change only in `drive`. So harness and design see each other
// as two sets of registers on one clock, and no input ever depends on an output of the same cycle.

#include "nic.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "buses.h"
#include "common.h"
#include "link.h"
#include "packets.h"
#if AMOEBA_PCIE
#include "pcie_root.h"
#else
#include "host_memory.h"
#include "registers.h"
#endif
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Waveform = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Waveform = VerilatedVcdC;
#endif

#if AMOEBA_PCIE
using Memory = PcieMemory;
using Registers = PcieRegisters;
#else
using Memory = HostMemory;
using Registers = RegisterBus;
#endif

struct amoeba_nic {
    explicit amoeba_nic(const amoeba_options& options)
        : stalls_(options.stall, options.seed),
          top_(std::make_unique<Vtop>(&context_)),
          memory(options, stalls_, violation_),
          link(stalls_, violation_),
          registers(stalls_, violation_) {
        // A failed assertion of the design becomes an error of this instance, not the end of the process.
        context_.fatalOnError(false);
#if AMOEBA_PCIE
        memory.packets = registers.packets = &packets_;
#endif
#if VM_TRACE
        context_.traceEverOn(true);
#endif
        reset();
    }

    ~amoeba_nic() {
        waves_stop();
        top_->final();
    }

    void reset() {
        function_reset();
        trace_.clear();
        buses_.clear();
        packets_.clear();
        now_ = last_activity_ = 0;
    }

    void function_reset() {
        violation_.clear();
        context_.gotError(false);
        context_.gotFinish(false);
        memory.clear(*top_);
        link.clear(*top_, now_);
        registers.clear(*top_);
        interrupts_ = 0;
        // The first edge ends the last cycle before the reset; the last cycle of the reset ends with the next edge.
        top_->rst = 1;
        for (int cycle = 0; cycle < RESET_CYCLES; ++cycle) {
            evaluate(1);
            evaluate(0);
        }
        top_->rst = 0;
    }

    bool run_until(uint64_t cycle) {
        while (now_ < cycle && !failed()) step();
        return !failed();
    }

    // Returns as amoeba_bar_read does.
    int read_register(uint32_t offset, uint32_t& value, uint64_t limit) {
        registers.read(offset);
        for (uint64_t end = now_ + limit; !registers.read_done(); step()) {
            if (failed()) return -1;
            if (now_ >= end) {
                registers.abandon();
                return 4;
            }
        }
        if (failed()) return -1;
        value = registers.read_value();
        return registers.read_response();
    }

    uint64_t cycles() const { return now_; }
    uint64_t last_activity() const { return last_activity_; }
    const char* error() const {
        return violation_.any() ? violation_.text() : failed() ? "an assertion of the design failed" : "";
    }

    uint64_t take_interrupts() {
        const uint64_t taken = interrupts_;
        interrupts_ = 0;
        return taken;
    }

    bool waves_start(const char* path) {
#if VM_TRACE
        waves_stop();
        // Verilator's FST writer does not notice a file that cannot be written.
        std::FILE* file = std::fopen(path, "wb");
        if (!file) return false;
        std::fclose(file);
        waves_ = std::make_unique<Waveform>();
        top_->trace(waves_.get(), 99);
        waves_->open(path);
        return waves_->isOpen();
#else
        static_cast<void>(path);
        return false;
#endif
    }

    void waves_stop() {
#if VM_TRACE
        if (waves_) waves_->close();
        waves_.reset();
#endif
    }

    void trace_enable(bool enabled) {
        if (tracing_ && !enabled) buses_.end(now_);
        tracing_ = packets_.enabled = enabled;
    }

    const amoeba_bus_event* take_bus_events(uint64_t& count) { return buses_.take(count); }
    const amoeba_packet* take_packets(uint64_t& count) { return packets_.take(count); }

    const amoeba_trace_event* take_trace(uint64_t& count) {
        taken_trace_.swap(trace_);
        trace_.clear();
        count = taken_trace_.size();
        return taken_trace_.data();
    }

    const uint8_t* take_frame(uint32_t& size, uint64_t& cycle) {
        if (link.sent.empty()) return nullptr;
        taken_frame_ = std::move(link.sent.front());
        link.sent.pop_front();
        size = taken_frame_.data.size();
        cycle = taken_frame_.cycle;
        return taken_frame_.data.data();
    }

private:
    static constexpr int RESET_CYCLES = 4;
    static constexpr int HALF_CYCLE = 2;  // nanoseconds of waveforms: 250 MHz

    bool failed() const { return violation_.any() || context_.gotError() || context_.gotFinish(); }

    void evaluate(int clock) {
        top_->clk = clock;
#if AMOEBA_MEMORY_CLOCK
        top_->memory_clock = clock & memory_runs_;
#endif
        top_->eval();
#if AMOEBA_MEMORY_CLOCK
        memory_runs_ = top_->memory_runs;
#endif
#if VM_TRACE
        if (waves_) waves_->dump(half_cycles_ * HALF_CYCLE);
        ++half_cycles_;
#endif
    }

    void step() {
        memory.drive(*top_, now_);
        link.drive(*top_, now_);
        registers.drive(*top_);
        evaluate(1);
        memory.sample(*top_, now_);
        link.sample(*top_, now_);
        registers.sample(*top_, now_);
        const uint64_t interrupts = memory.interrupts(*top_);
        interrupts_ |= interrupts;
        if (memory.busy() || link.busy() || registers.busy() || interrupts) last_activity_ = now_;
        if (tracing_) {
            sample_trace();
            buses_.sample(*top_, now_);
        }
        evaluate(0);
        if (!failed()) ++now_;
    }

    void sample_trace() {
#define AMOEBA_RECORD(index, name, valid, data) \
    if (top_->valid) trace_.push_back({now_, top_->data, index, 0});
        TRACE_STAGES(AMOEBA_RECORD)
#undef AMOEBA_RECORD
    }

    VerilatedContext context_;
    Violation violation_;
    Stalls stalls_;
    std::unique_ptr<Vtop> top_;
    uint64_t now_ = 0;
    uint64_t last_activity_ = 0;  // the latest cycle in which a bus was in use, or an interrupt raised
    uint64_t interrupts_ = 0;
    Link::Frame taken_frame_;
    std::vector<amoeba_trace_event> trace_, taken_trace_;
    Buses buses_;
    Packets packets_;
    bool tracing_ = false;
#if VM_TRACE
    std::unique_ptr<Waveform> waves_;
    uint64_t half_cycles_ = 0;
#endif
#if AMOEBA_MEMORY_CLOCK
    // In the cycle that the next rise of the clock ends. Unknown before the first.
    bool memory_runs_ = true;
#endif

public:
    Memory memory;
    Link link;
    Registers registers;
};

namespace {

#define AMOEBA_NAME(index, name, valid, data) name,
constexpr const char* STAGES[] = {TRACE_STAGES(AMOEBA_NAME) nullptr};
#undef AMOEBA_NAME

template <typename Queue>
bool take(Queue& queue, typename Queue::value_type& item) {
    if (queue.empty()) return false;
    item = std::move(queue.front());
    queue.pop_front();
    return true;
}

}  // namespace

#define API __attribute__((visibility("default")))

extern "C" {

API uint32_t amoeba_data_width() { return DATA_WIDTH; }
API uint32_t amoeba_bar_bits() { return BAR_BITS; }
API uint32_t amoeba_stage_count() { return sizeof STAGES / sizeof STAGES[0] - 1; }
API const char* amoeba_stage_name(uint32_t index) { return STAGES[index]; }

API amoeba_nic* amoeba_create(const amoeba_options* options) { return new amoeba_nic(*options); }
API void amoeba_destroy(amoeba_nic* nic) { delete nic; }
API void amoeba_reset(amoeba_nic* nic) { nic->reset(); }
API void amoeba_function_reset(amoeba_nic* nic) { nic->function_reset(); }

API uint64_t amoeba_cycles(const amoeba_nic* nic) { return nic->cycles(); }
API uint64_t amoeba_last_activity(const amoeba_nic* nic) { return nic->last_activity(); }
API int amoeba_run_until(amoeba_nic* nic, uint64_t cycle) { return nic->run_until(cycle) ? 0 : -1; }
API const char* amoeba_error(const amoeba_nic* nic) { return nic->error(); }

API void amoeba_bar_write(amoeba_nic* nic, uint32_t offset, uint32_t value) {
    nic->registers.write(offset, value);
}

API int amoeba_bar_read(amoeba_nic* nic, uint32_t offset, uint32_t* value, uint64_t limit) {
    return nic->read_register(offset, *value, limit);
}

API int amoeba_take_refused_write(amoeba_nic* nic, uint32_t* offset, uint32_t* response) {
    Registers::Refused refused{};
    const bool any = take(nic->registers.refused_writes, refused);
    *offset = refused.offset;
    *response = refused.response;
    return any;
}

API void amoeba_grant(amoeba_nic* nic, uint64_t address, uint64_t length, int writable, uint64_t host, int context) {
    nic->memory.grants.add(address, length, writable, host, context);
}

API int amoeba_revoke(amoeba_nic* nic, uint64_t address, uint64_t length, int context) {
    return nic->memory.grants.remove(address, length, context);
}

API int amoeba_take_fault(amoeba_nic* nic, amoeba_fault* fault) { return take(nic->memory.faults, *fault); }

API void amoeba_deliver(amoeba_nic* nic, const uint8_t* data, uint32_t size, uint64_t cycle) {
    nic->link.coming.push_back({cycle, {data, data + size}});
}

API const uint8_t* amoeba_take_frame(amoeba_nic* nic, uint32_t* size, uint64_t* cycle) {
    return nic->take_frame(*size, *cycle);
}

API void amoeba_pause_transmission(amoeba_nic* nic, uint64_t cycle, int stop) {
    nic->link.stops.push_back({cycle, stop != 0});
}

API void amoeba_bound_reception(amoeba_nic* nic, uint64_t space, uint64_t stop_above, uint64_t go_at) {
    nic->link.bound(space, stop_above, go_at);
}

API int amoeba_take_pause(amoeba_nic* nic, uint64_t* cycle, int* stop) {
    Link::Pause pause{};
    const bool any = take(nic->link.told, pause);
    *cycle = pause.cycle;
    *stop = pause.stop;
    return any;
}

API uint64_t amoeba_overflowed(const amoeba_nic* nic) { return nic->link.overflowed; }

API uint64_t amoeba_take_interrupts(amoeba_nic* nic) { return nic->take_interrupts(); }

API void amoeba_trace_enable(amoeba_nic* nic, int enabled) { nic->trace_enable(enabled); }

API const amoeba_trace_event* amoeba_take_trace(amoeba_nic* nic, uint64_t* count) {
    return nic->take_trace(*count);
}

API const amoeba_bus_event* amoeba_take_bus_events(amoeba_nic* nic, uint64_t* count) {
    return nic->take_bus_events(*count);
}

API const amoeba_packet* amoeba_take_packets(amoeba_nic* nic, uint64_t* count) { return nic->take_packets(*count); }

API int amoeba_waves_start(amoeba_nic* nic, const char* path) { return nic->waves_start(path) ? 0 : -1; }
API void amoeba_waves_stop(amoeba_nic* nic) { nic->waves_stop(); }

}  // extern "C"
