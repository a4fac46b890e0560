// The network side of the NIC: AXI-Stream frames in both directions, one frame per packet.

#pragma once

#include <deque>
#include <vector>

#include "common.h"

class Link {
public:
    struct Frame {
        uint64_t cycle;
        std::vector<uint8_t> data;
    };

    Link(Stalls& stalls, Violation& violation) : stalls_(stalls), violation_(violation) {}

    std::deque<Frame> arriving;  // in order; the front one may be on the wire
    std::deque<Frame> sent;

    void clear(Vtop& top) {
        arriving.clear();
        sent.clear();
        building_.clear();
        position_ = 0;
        offered_ = false;
        tx_rule_.clear();
        top.rx___05Ftvalid = 0;
        top.tx___05Ftready = 0;
    }

    // Whether a frame is being received, or has been sent and not taken.
    bool busy() const { return position_ != 0 || offered_ || !building_.empty() || !sent.empty(); }

    // Takes note of the transfers of `cycle`.
    void sample(const Vtop& top, uint64_t cycle) {
        if (top.rx___05Ftvalid && top.rx___05Ftready) {
            offered_ = false;
            position_ += BEAT;
            if (top.rx___05Ftlast) {
                arriving.pop_front();
                position_ = 0;
            }
        }
        tx_rule_.check(top.tx___05Ftvalid, top.tx___05Ftready, &top.tx___05Ftdata, BEAT, cycle, violation_);
        if (top.tx___05Ftvalid && top.tx___05Ftready) sample_sent(top, cycle);
    }

    // Sets the inputs of the design for `cycle`.
    void drive(Vtop& top, uint64_t cycle) {
        top.tx___05Ftready = !stalls_();
        // What has been offered stays; a new beat may be withheld.
        offered_ = offered_ ||
                   (!arriving.empty() && (position_ != 0 || arriving.front().cycle <= cycle) && !stalls_());
        top.rx___05Ftvalid = offered_;
        if (offered_) drive_received(top);
    }

private:
    void sample_sent(const Vtop& top, uint64_t cycle) {
        const uint64_t keep = top.tx___05Ftkeep & FULL_BEAT;
        const uint32_t size = __builtin_popcountll(keep);
        const bool contiguous = (keep & (keep + 1)) == 0;
        if (!contiguous || (top.tx___05Ftlast ? size == 0 : size != BEAT)) {
            violation_.report(
                "cycle %llu: tx TKEEP %#llx with TLAST %d: expected all bytes, or on the last beat the lower ones",
                static_cast<unsigned long long>(cycle), static_cast<unsigned long long>(keep),
                static_cast<int>(top.tx___05Ftlast));
        }
        const auto* bytes = reinterpret_cast<const uint8_t*>(&top.tx___05Ftdata);
        building_.insert(building_.end(), bytes, bytes + size);
        if (top.tx___05Ftlast) {
            sent.push_back({cycle, std::move(building_)});
            building_.clear();
        }
    }

    void drive_received(Vtop& top) {
        const std::vector<uint8_t>& data = arriving.front().data;
        const uint32_t left = data.size() - position_;
        const uint32_t size = left < BEAT ? left : BEAT;
        uint8_t beat[BEAT] = {0};
        memcpy(beat, data.data() + position_, size);
        memcpy(reinterpret_cast<uint8_t*>(&top.rx___05Ftdata), beat, BEAT);
        top.rx___05Ftkeep = FULL_BEAT >> (BEAT - size);
        top.rx___05Ftlast = left <= BEAT;
    }

    Stalls& stalls_;
    Violation& violation_;
    SourceRule tx_rule_{"tx"};
    std::vector<uint8_t> building_;
    uint32_t position_ = 0;  // of the beat on offer, in the frame at the front of `arriving`
    bool offered_ = false;
};
