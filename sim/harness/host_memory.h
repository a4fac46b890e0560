// The host side of the NIC's AXI4 master: process memory behind a latency and an IOMMU.
//
// Reads: answered in order, one beat per cycle, the first `latency` cycles after the address' transfer. The
// bytes of a burst are taken from memory all at once, when its first beat is offered. AXI reads whole beats,
// so the check allows a burst to reach beyond its grant within the beats that the grant touches; bytes that no
// grant covers read as zero.
// Writes: a burst is checked byte for byte (strobes) and then takes effect, all at once, in the cycle of its
// last beat, or of its address if that comes later. The response follows `latency` cycles after.
// A refused burst is recorded, answered with SLVERR, and touches nothing.

#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "common.h"
#include "grants.h"
#include "nic.h"

class HostMemory {
public:
    HostMemory(const amoeba_options& options, Stalls& stalls, Violation& violation)
        : latency_(options.host_latency), stalls_(stalls), violation_(violation) {}

    Grants grants;
    std::deque<amoeba_fault> faults;

    void clear(Vtop& top) {
        reads_.clear();
        writes_.clear();
        responses_.clear();
        for (SourceRule* rule : {&ar_rule_, &aw_rule_, &w_rule_}) rule->clear();
        read_beat_ = read_beats_ = write_beat_ = 0;
        write_complete_ = r_offered_ = b_offered_ = false;
        top.host___05Farready = top.host___05Fawready = top.host___05Fwready = 0;
        top.host___05Frvalid = top.host___05Fbvalid = 0;
    }

    // Whether something was asked for and has not been answered.
    bool busy() const {
        return !reads_.empty() || !writes_.empty() || !responses_.empty() || write_beat_ != 0;
    }

    // Interrupts of this cycle, one bit per vector.
    uint64_t interrupts(const Vtop& top) const { return top.irq; }

    // Takes note of the transfers of `cycle`.
    void sample(const Vtop& top, uint64_t cycle) {
        sample_read_address(top, cycle);
        if (top.host___05Frvalid && top.host___05Frready) {
            r_offered_ = false;
            if (++read_beat_ == read_beats_) {
                read_beat_ = read_beats_ = 0;
                reads_.pop();
            }
        }
        sample_write_address(top, cycle);
        sample_write_data(top, cycle);
        if (write_complete_ && !writes_.empty()) perform_write(cycle);
        if (top.host___05Fbvalid && top.host___05Fbready) {
            b_offered_ = false;
            responses_.pop();
        }
    }

    // Sets the inputs of the design for `cycle`.
    void drive(Vtop& top, uint64_t cycle) {
        top.host___05Farready = !reads_.full() && !stalls_();
        drive_read_data(top, cycle);
        top.host___05Fawready = !writes_.full() && !stalls_();
        // A complete burst that waits for its address blocks the next one.
        top.host___05Fwready = !write_complete_ && !responses_.full() && !stalls_();
        // What has been offered stays; a new response may be withheld.
        b_offered_ = b_offered_ || (!responses_.empty() && responses_.front().ready_at <= cycle && !stalls_());
        top.host___05Fbvalid = b_offered_;
        if (b_offered_) {
            top.host___05Fbid = responses_.front().id;
            top.host___05Fbresp = responses_.front().code;
        }
    }

private:
    static constexpr uint32_t OUTSTANDING = 1024;
    static constexpr uint32_t MAX_BEATS = 256;
    static constexpr uint32_t PAGE = 4096;  // no AXI burst crosses a multiple of this
    static constexpr uint8_t OKAY = 0, SLVERR = 2;

    struct Burst {
        uint64_t address;
        uint64_t ready_at;
        uint32_t id;
        uint16_t beats;
        uint16_t user;  // AxUSER: who asks, and in the upper byte for which context
        uint8_t reserved;

        uint64_t base() const { return address & -uint64_t{BEAT}; }
        uint64_t end() const { return base() + uint64_t{beats} * BEAT; }
    };

    struct Response {
        uint64_t ready_at;
        uint32_t id;
        uint8_t code;
    };

    void check_burst(const Burst& burst, uint32_t size, uint32_t type, const char* channel, uint64_t cycle) {
        constexpr uint32_t full_size = __builtin_ctz(BEAT);
        constexpr uint32_t increment = 1;
        if (size != full_size || type != increment || (burst.address ^ (burst.end() - 1)) / PAGE != 0) {
            violation_.report(
                "cycle %llu: %s address %#llx, %u beats, size %u, type %u: expected INCR, size %u, inside 4 KiB",
                static_cast<unsigned long long>(cycle), channel, static_cast<unsigned long long>(burst.address),
                burst.beats, size, type, full_size);
        }
    }

    void sample_read_address(const Vtop& top, uint64_t cycle) {
        const Burst burst{top.host___05Faraddr, cycle + latency_, top.host___05Farid,
                          static_cast<uint16_t>(top.host___05Farlen + 1), top.host___05Faruser, 0};
        const uint64_t held[3] = {burst.address, burst.id, uint64_t{burst.beats} << 16 | burst.user};
        ar_rule_.check(top.host___05Farvalid, top.host___05Farready, held, sizeof held, cycle, violation_);
        if (!top.host___05Farvalid || !top.host___05Farready) return;
        check_burst(burst, top.host___05Farsize, top.host___05Farburst, "AR", cycle);
        reads_.push(burst);
    }

    void sample_write_address(const Vtop& top, uint64_t cycle) {
        const Burst burst{top.host___05Fawaddr, 0, top.host___05Fawid,
                          static_cast<uint16_t>(top.host___05Fawlen + 1), top.host___05Fawuser, 0};
        const uint64_t held[3] = {burst.address, burst.id, uint64_t{burst.beats} << 16 | burst.user};
        aw_rule_.check(top.host___05Fawvalid, top.host___05Fawready, held, sizeof held, cycle, violation_);
        if (!top.host___05Fawvalid || !top.host___05Fawready) return;
        check_burst(burst, top.host___05Fawsize, top.host___05Fawburst, "AW", cycle);
        writes_.push(burst);
    }

    void sample_write_data(const Vtop& top, uint64_t cycle) {
        w_rule_.check(top.host___05Fwvalid, top.host___05Fwready, &top.host___05Fwdata, BEAT, cycle,
                      violation_);
        if (!top.host___05Fwvalid || !top.host___05Fwready) return;
        if (write_beat_ == MAX_BEATS) {
            violation_.report("cycle %llu: more than %u W beats without WLAST",
                              static_cast<unsigned long long>(cycle), MAX_BEATS);
            return;
        }
        memcpy(write_data_ + write_beat_ * BEAT, &top.host___05Fwdata, BEAT);
        strobes_[write_beat_++] = top.host___05Fwstrb;
        write_complete_ = top.host___05Fwlast;
    }

    void drive_read_data(Vtop& top, uint64_t cycle) {
        if (read_beats_ == 0) {
            if (reads_.empty() || reads_.front().ready_at > cycle) {
                top.host___05Frvalid = 0;
                return;
            }
            begin_read(reads_.front());
        }
        // What has been offered stays; a new beat may be withheld.
        r_offered_ = r_offered_ || !stalls_();
        top.host___05Frvalid = r_offered_;
        if (!r_offered_) return;
        top.host___05Frid = reads_.front().id;
        top.host___05Frresp = read_code_;
        top.host___05Frlast = read_beat_ + 1 == read_beats_;
        memcpy(&top.host___05Frdata, read_data_ + read_beat_ * BEAT, BEAT);
    }

    void begin_read(const Burst& burst) {
        read_beats_ = burst.beats;
        const uint64_t skipped = burst.address - burst.base();
        memset(read_data_, 0, skipped);
        read_code_ = OKAY;
        if (!reach(burst).read(burst.address, burst.end(), read_data_ + skipped)) {
            refuse(burst, burst.address, burst.end(), false);
            memset(read_data_, 0, burst.end() - burst.base());
            read_code_ = SLVERR;
        }
    }

    void perform_write(uint64_t cycle) {
        const Burst burst = writes_.front();
        writes_.pop();
        if (burst.beats != write_beat_) {
            violation_.report("cycle %llu: %u W beats for a burst of %u at %#llx",
                              static_cast<unsigned long long>(cycle), write_beat_, burst.beats,
                              static_cast<unsigned long long>(burst.address));
        }
        const uint64_t before_start = (uint64_t{1} << (burst.address - burst.base())) - 1;
        if (strobes_[0] & before_start) {
            violation_.report("cycle %llu: WSTRB %#llx sets bytes before the burst's address %#llx",
                              static_cast<unsigned long long>(cycle),
                              static_cast<unsigned long long>(strobes_[0]),
                              static_cast<unsigned long long>(burst.address));
        }
        const bool allowed = check_write(burst);
        if (allowed) {
            for_each_run([&](uint32_t from, uint32_t to) {
                reach(burst).write(burst.base() + from, burst.base() + to, write_data_ + from);
            });
        }
        // There is space: W stops while the ring is full, and no two bursts complete in one cycle.
        responses_.push({cycle + latency_, burst.id, allowed ? OKAY : SLVERR});
        write_beat_ = 0;
        write_complete_ = false;
    }

    bool check_write(const Burst& burst) {
        uint64_t first = ~uint64_t{0}, last = 0;
        bool allowed = true;
        for_each_run([&](uint32_t from, uint32_t to) {
            first = std::min(first, burst.base() + from);
            last = burst.base() + to;
            allowed &= reach(burst).writable(burst.base() + from, burst.base() + to);
        });
        if (!allowed) refuse(burst, first, last, true);
        return allowed;
    }

    // Calls visit(from, to) for each run of strobed bytes of the collected burst, one or more runs per beat.
    template <typename Visit>
    void for_each_run(Visit visit) const {
        for (uint32_t beat = 0; beat < write_beat_; ++beat) {
            uint64_t strobes = strobes_[beat] & FULL_BEAT;
            const uint32_t base = beat * BEAT;
            if (strobes == FULL_BEAT) {
                visit(base, base + BEAT);
                continue;
            }
            while (strobes) {
                const uint32_t from = __builtin_ctzll(strobes);
                const uint32_t length = __builtin_ctzll(~(strobes >> from));
                visit(base + from, base + from + length);
                strobes &= ~(((uint64_t{1} << length) - 1) << from);
            }
        }
    }

    const Reach& reach(const Burst& burst) const { return grants.of(burst.user >> 8); }

    void refuse(const Burst& burst, uint64_t start, uint64_t end, bool write) {
        faults.push_back({start, end - start, write, burst.user & 0xffu, burst.user >> 8});
    }

    const uint32_t latency_;
    Stalls& stalls_;
    Violation& violation_;
    SourceRule ar_rule_{"host AR"}, aw_rule_{"host AW"}, w_rule_{"host W"};

    Ring<Burst, OUTSTANDING> reads_, writes_;
    Ring<Response, OUTSTANDING> responses_;

    uint8_t read_data_[PAGE];  // of the burst at the front of reads_, while read_beats_ is not 0
    uint32_t read_beat_ = 0, read_beats_ = 0;
    uint8_t read_code_ = OKAY;
    bool r_offered_ = false;

    uint8_t write_data_[MAX_BEATS * BEAT];
    uint64_t strobes_[MAX_BEATS];
    uint32_t write_beat_ = 0;
    bool write_complete_ = false;
    bool b_offered_ = false;
};
