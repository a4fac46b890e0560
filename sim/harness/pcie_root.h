// The host behind PCI Express, instead of host_memory.h and registers.h: transaction layer packets, as
// amoeba_hw.pcie.interfaces.PcieLinkSignature carries them, without a link's or an IP's format.
//
// Requests are done in the order in which they come: a write at once, in the cycle of its last beat; what a completion
// carries is read from memory when it is sent. Reads are answered from `latency` cycles after their request on, cut at
// the Read Completion Boundary at random, and in an order of their own. Credits are counted: writes wait for theirs,
// a read must not be offered without. A read of a page in which nothing is granted gets UR; a write of a byte that is not
// granted is dropped. Both are recorded. TLPs without PASID do not tell for which context they are: only what is granted
// to all contexts is granted here.
//
// The link carries a beat's bytes per cycle each way (256 bits at 250 MHz: about x8 at 8 GT/s), with what each packet has
// beside its payload: a header and LINK_OVERHEAD.
//
// Rules from the Base Specification: 2.2.2 (length), 2.2.5 (byte enables), 2.2.6 (tags), 2.2.7 (4 KiB), 2.2.9
// (completions), 2.6.1 (credits).

#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "common.h"
#include "grants.h"
#include "nic.h"
#include "packets.h"

// A field of a header, as it lies in the words of a stream's payload.
inline uint64_t get(const uint32_t* words, Bits bits) {
    uint64_t value = 0;
    for (uint32_t done = 0; done < bits.width;) {
        const uint32_t at = bits.at + done, take = std::min(32 - at % 32, bits.width - done);
        value |= (uint64_t{words[at / 32]} >> at % 32 & ((uint64_t{1} << take) - 1)) << done;
        done += take;
    }
    return value;
}

inline void set(uint32_t* words, Bits bits, uint64_t value) {
    for (uint32_t done = 0; done < bits.width;) {
        const uint32_t at = bits.at + done, take = std::min(32 - at % 32, bits.width - done);
        const uint32_t mask = static_cast<uint32_t>(((uint64_t{1} << take) - 1) << at % 32);
        words[at / 32] = (words[at / 32] & ~mask) | (static_cast<uint32_t>((value >> done) << at % 32) & mask);
        done += take;
    }
}

enum : uint32_t { KIND_READ = 0, KIND_WRITE = 1, STATUS_SC = 0, STATUS_UR = 1 };

// Kinds of amoeba_packet: PacketKind in amoeba_model.tlp.
enum : uint32_t {
    PACKET_READ,
    PACKET_WRITE,
    PACKET_INTERRUPT,
    PACKET_COMPLETION,
    PACKET_REGISTER_READ,
    PACKET_REGISTER_WRITE,
    PACKET_REGISTER_COMPLETION,
};

// Where interrupts are written to; the vector is the data.
constexpr uint64_t INTERRUPT_ADDRESS = 0xFEE00000;

class PcieMemory {
public:
    PcieMemory(const amoeba_options& options, Stalls& stalls, Violation& violation)
        : latency_(options.host_latency),
          max_payload_(options.max_payload),
          max_read_request_(options.max_read_request),
          boundary_(options.read_completion_boundary),
          tags_(options.extended_tags ? 256 : 32),
          random_(options.seed ^ 0x7C1E),
          stalls_(stalls),
          violation_(violation) {}

    Grants grants;
    std::deque<amoeba_fault> faults;
    Packets* packets = nullptr;

    void clear(Vtop& top) {
        for (Read& read : reads_) read.active = false;
        waiting_.clear();
        returns_.clear();
        rule_.clear();
        inside_ = false;
        offered_ = false;
        interrupts_ = 0;
        sent_ = size_ = 0;
        up_ = down_ = 0;
        headers_ = WRITE_HEADERS;
        data_ = WRITE_DATA;
        read_headers_ = READ_HEADERS;
        top.link___05Frequests___05Fready = top.link___05Fcompletions___05Fvalid = 0;
        top.link___05Fread_credit = 0;
        uint32_t configuration = 0;
        set(&configuration, configuration::max_payload, code(max_payload_));
        set(&configuration, configuration::max_read_request, code(max_read_request_));
        set(&configuration, configuration::read_completion_boundary, boundary_ == 128);
        set(&configuration, configuration::extended_tags, tags_ > 32);
        set(&configuration, configuration::bus_master, 1);
        set(&configuration, configuration::memory_space, 1);
        set(&configuration, configuration::msix_enable, 1);
        top.link___05Fconfiguration = configuration;
    }

    bool busy() const { return !waiting_.empty() || inside_; }

    // Interrupts of the last cycle that was sampled, one bit per vector.
    uint64_t interrupts(const Vtop&) const { return interrupts_; }

    void sample(const Vtop& top, uint64_t cycle) {
        interrupts_ = 0;
        const uint32_t* words = &top.link___05Frequests___05Fpayload[0];
        const bool valid = top.link___05Frequests___05Fvalid, ready = top.link___05Frequests___05Fready;
        rule_.check(valid, ready, words, BEAT + 16, cycle, violation_);
        if (valid && !inside_ && get(words, request_header::kind) == KIND_READ && read_headers_ == 0) {
            violation_.report("cycle %llu: a read was offered without credit", ull(cycle));
        }
        if (valid && ready) take_beat(words, cycle);
        if (top.link___05Fcompletions___05Fvalid && top.link___05Fcompletions___05Fready) {
            if (sent_ == 0) packets->note(answer_at(cycle));
            offered_ = false;
            sent_ += BEAT;
            if (sent_ >= size_) size_ = sent_ = 0;
        }
    }

    void drive(Vtop& top, uint64_t cycle) {
        while (!returns_.empty() && returns_.front().at <= cycle) {
            headers_ += returns_.front().headers;
            data_ += returns_.front().data;
            read_headers_ += returns_.front().reads;
            returns_.pop_front();
        }
        up_ -= std::min(up_, BEAT);
        down_ -= std::min(down_, BEAT);
        // Enough for the largest write, as what is offered is not known yet.
        const bool space = inside_ || (headers_ > 0 && data_ >= max_payload_ / 16);
        top.link___05Frequests___05Fready = space && up_ < BEAT && !stalls_();
        // The NIC learns of it late by two reads at most.
        top.link___05Fread_credit = read_headers_ > 2;
        drive_completion(top, cycle);
    }

private:
    static constexpr uint32_t PAGE = 4096, LONGEST = 4096;
    static constexpr uint32_t WRITE_HEADERS = 64, WRITE_DATA = 1024, READ_HEADERS = 128;  // credits; 16 bytes of data
    static constexpr uint32_t CREDITS_RETURN = 30;                                       // cycles
    static constexpr uint32_t LINK_OVERHEAD = 8;  // bytes: start and sequence number, LCRC (4.2.2, 3.6.2 at 8 GT/s)
    static constexpr uint32_t REQUEST = 16 + LINK_OVERHEAD, COMPLETION = 12 + LINK_OVERHEAD;

    struct Read {
        bool active = false, refused = false;
        uint64_t ready_at = 0, at = 0, end = 0;
        uint32_t user = 0;
    };

    struct Credits {
        uint64_t at;
        uint32_t headers, data, reads;
    };

    static unsigned long long ull(uint64_t value) { return value; }
    static uint32_t size32(uint64_t value) { return static_cast<uint32_t>(value); }
    static uint32_t code(uint32_t bytes) { return __builtin_ctz(bytes / 128); }

    void take_beat(const uint32_t* words, uint64_t cycle) {
        const bool first = get(words, request_header::first), last = get(words, request_header::last);
        if (first == inside_) violation_.report("cycle %llu: first is %d within a request", ull(cycle), first);
        if (first) begin(words, cycle);
        if (violation_.any()) return;
        up_ += first ? REQUEST : 0;
        if (write_) {
            const uint32_t take = std::min<uint32_t>(BEAT, 4 * dwords_ - received_);
            up_ += take;
            memcpy(payload_ + received_, words + 4, take);
            received_ += take;
        }
        inside_ = !last;
        if (last != (!write_ || received_ == 4 * dwords_)) {
            violation_.report("cycle %llu: a request of %u DWs has a last beat after %u bytes", ull(cycle), dwords_,
                              received_);
        }
        if (last && write_) perform_write();
    }

    void begin(const uint32_t* words, uint64_t cycle) {
        const uint64_t kind = get(words, request_header::kind);
        write_ = kind == KIND_WRITE;
        address_ = get(words, request_header::address);
        dwords_ = get(words, request_header::dwords);
        first_be_ = get(words, request_header::first_be);
        last_be_ = get(words, request_header::last_be);
        requester_ = get(words, request_header::user);
        received_ = 0;
        const uint32_t most = write_ ? max_payload_ : max_read_request_;
        const bool single = dwords_ == 1;
        if (kind > KIND_WRITE || address_ % 4 != 0 || dwords_ == 0 || 4 * dwords_ > most ||
            address_ % PAGE + 4 * dwords_ > PAGE || first_be_ == 0 || (last_be_ == 0) != single ||
            (!single && (!from_some_byte_on(first_be_) || !up_to_some_byte(last_be_)))) {
            violation_.report("cycle %llu: no request can be of kind %llu, %u DWs at %#llx, byte enables %x and %x",
                              ull(cycle), ull(kind), dwords_, ull(address_), first_be_, last_be_);
            return;
        }
        if (write_) {
            headers_ -= 1;
            data_ -= (dwords_ + 3) / 4;
            returns_.push_back({cycle + CREDITS_RETURN, 1, (dwords_ + 3) / 4, 0});
            packets->note(write_at(words, cycle));
        } else {
            begin_read(get(words, request_header::tag), cycle);
        }
    }

    static bool from_some_byte_on(uint32_t enables) {
        return enables == 0xF || enables == 0xE || enables == 0xC || enables == 0x8;
    }
    static bool up_to_some_byte(uint32_t enables) {
        return enables == 0xF || enables == 0x7 || enables == 0x3 || enables == 0x1;
    }

    void begin_read(uint64_t tag, uint64_t cycle) {
        if (tag >= tags_ || reads_[tag].active) {
            violation_.report("cycle %llu: tag %llu is %s", ull(cycle), ull(tag),
                              tag >= tags_ ? "more than is allowed" : "in use");
            return;
        }
        if (read_headers_ == 0) return;
        --read_headers_;
        returns_.push_back({cycle + CREDITS_RETURN, 0, 0, 1});
        Read& read = reads_[tag];
        read.active = true;
        read.at = first_byte();
        read.end = behind_last_byte();
        read.user = requester_;
        read.ready_at = cycle + latency_;
        read.refused = !grants.of(Grants::ALL).page_readable(read.at);
        if (read.refused) faults.push_back({read.at, read.end - read.at, 0, requester_, -1});
        waiting_.push_back(tag);
        packets->note({cycle, read.at, 0, size32(read.end - read.at), PACKET_READ, size32(tag), requester_, 0, 0});
    }

    // The bytes that the request is about.
    uint64_t first_byte() const { return address_ + __builtin_ctz(first_be_); }
    uint64_t behind_last_byte() const {
        return address_ + 4 * (dwords_ - 1) + (32 - __builtin_clz(dwords_ == 1 ? first_be_ : last_be_));
    }

    amoeba_packet write_at(const uint32_t* words, uint64_t cycle) const {
        const bool interrupt = address_ >> 20 == INTERRUPT_ADDRESS >> 20;
        const uint64_t data = dwords_ > 2 ? 0 : words[4] | (dwords_ == 2 ? uint64_t{words[5]} << 32 : 0);
        return {cycle, first_byte(), data, size32(behind_last_byte() - first_byte()),
                interrupt ? PACKET_INTERRUPT : PACKET_WRITE, 0, requester_, 0, 0};
    }

    amoeba_packet answer_at(uint64_t cycle) const {
        const uint32_t tag = size32(get(header_, completion_header::tag));
        return {cycle, answered_, 0, answers_, PACKET_COMPLETION, tag, reads_[tag].user,
                size32(get(header_, completion_header::status)), 0};
    }

    void perform_write() {
        const uint32_t size = 4 * dwords_;
        if (address_ >> 20 == INTERRUPT_ADDRESS >> 20) {
            interrupts_ |= uint64_t{1} << (payload_[0] & 63);
            return;
        }
        // Of a single DW any bytes may be enabled; otherwise they are without gaps.
        const uint32_t last = dwords_ == 1 ? first_be_ : last_be_;
        for (uint32_t enables = dwords_ == 1 ? first_be_ : 1, from = 0; enables != 0;) {
            uint32_t to;
            if (dwords_ > 1) {
                from = __builtin_ctz(first_be_);
                to = size - 4 + (32 - __builtin_clz(last));
                enables = 0;
            } else {
                from = __builtin_ctz(enables);
                to = from + __builtin_ctz(~(enables >> from));
                enables &= ~0u << to;
            }
            if (!grants.of(Grants::ALL).writable(address_ + from, address_ + to)) {
                faults.push_back({address_ + from, to - from, 1, requester_, -1});
            } else {
                grants.of(Grants::ALL).write(address_ + from, address_ + to, payload_ + from);
            }
        }
    }

    void drive_completion(Vtop& top, uint64_t cycle) {
        if (size_ == 0) begin_completion(cycle);
        if (!offered_ && size_ != 0 && down_ < BEAT && !stalls_()) {
            offered_ = true;
            down_ += (sent_ == 0 ? COMPLETION : 0) + std::min(BEAT, carries_ - sent_);
        }
        top.link___05Fcompletions___05Fvalid = offered_;
        if (!offered_) return;
        uint32_t* words = &top.link___05Fcompletions___05Fpayload[0];
        if (sent_ == 0) memcpy(words, header_, sizeof header_);
        memcpy(words + 2, completion_ + sent_, BEAT);
        set(words, completion_header::first, sent_ == 0);
        set(words, completion_header::last, sent_ + BEAT >= size_);
    }

    // Chooses the read that is answered next, and how far.
    void begin_completion(uint64_t cycle) {
        uint32_t ready = 0;
        while (ready < waiting_.size() && ready < SHUFFLED && reads_[waiting_[ready]].ready_at <= cycle) ++ready;
        if (ready == 0) return;
        // One in four is not the oldest.
        const uint32_t index = random_.below(4) == 0 ? random_.below(ready) : 0;
        const uint32_t tag = waiting_[index];
        Read& read = reads_[tag];
        const uint32_t before = read.at % 4;
        uint64_t stop = read.end;
        const uint64_t start_word = read.at - before;
        if (stop - start_word > max_payload_ || (!read.refused && random_.below(8) == 0)) {
            const uint64_t next = (read.at / boundary_ + 1) * boundary_;
            const uint64_t farthest = std::min(stop - 1, start_word + max_payload_) / boundary_ * boundary_;
            if (next <= farthest) {
                stop = next + boundary_ * random_.below((farthest - next) / boundary_ + 1);
                if (random_.below(4) != 0) stop = farthest;
            }
        }
        memset(header_, 0, sizeof header_);
        set(header_, completion_header::tag, tag);
        set(header_, completion_header::byte_count, read.end - read.at);
        set(header_, completion_header::lower_address, read.at % 128);
        // Memory may have been taken away since it was asked for.
        const bool refused = read.refused || !grants.of(Grants::ALL).page_readable(read.at);
        if (refused) {
            set(header_, completion_header::status, STATUS_UR);
            size_ = BEAT;
            carries_ = 0;
            stop = read.end;
        } else {
            const uint32_t dwords = (before + (stop - read.at) + 3) / 4;
            set(header_, completion_header::status, STATUS_SC);
            set(header_, completion_header::dwords, dwords);
            carries_ = 4 * dwords;
            size_ = (carries_ + BEAT - 1) / BEAT * BEAT;
            memset(completion_, 0xA5, size_);
            grants.of(Grants::ALL).copy(read.at, stop, completion_ + before);
        }
        sent_ = 0;
        answered_ = read.at;
        answers_ = refused ? 0 : size32(stop - read.at);
        read.at = stop;
        if (stop == read.end) {
            read.active = false;
            waiting_.erase(waiting_.begin() + index);
        }
    }

    // xorshift64* (Vigna 2016).
    class Random {
    public:
        explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
        uint32_t below(uint32_t limit) {
            state_ ^= state_ >> 12;
            state_ ^= state_ << 25;
            state_ ^= state_ >> 27;
            return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Dull) >> 40) % limit;
        }

    private:
        uint64_t state_;
    };

    static constexpr uint32_t SHUFFLED = 16;  // reads among which one is chosen

    const uint32_t latency_, max_payload_, max_read_request_, boundary_, tags_;
    Random random_;
    Stalls& stalls_;
    Violation& violation_;
    SourceRule rule_{"requests"};
    Read reads_[256];
    std::deque<uint32_t> waiting_;  // tags, the oldest read first
    std::deque<Credits> returns_;
    uint32_t headers_ = 0, data_ = 0, read_headers_ = 0;
    uint32_t up_ = 0, down_ = 0;  // bytes that the link has still to carry of what it took
    // The request that is taken.
    bool inside_ = false, write_ = false;
    uint64_t address_ = 0;
    uint32_t dwords_ = 0, first_be_ = 0, last_be_ = 0, received_ = 0, requester_ = 0;
    uint8_t payload_[LONGEST + BEAT];
    uint64_t interrupts_ = 0;
    // The completion that is sent.
    bool offered_ = false;
    uint32_t size_ = 0, sent_ = 0;  // bytes, whole beats; 0: none
    uint32_t carries_ = 0;          // bytes
    uint64_t answered_ = 0;         // the address of its first byte that was asked for, ...
    uint32_t answers_ = 0;          // ... and how many of these it has
    uint32_t header_[2];
    uint8_t completion_[LONGEST + BEAT];
};

// Accesses to the BARs, one at a time and in order. A reset fills the MSI-X table first, as an operating system does.
class PcieRegisters {
public:
    struct Refused {
        uint32_t offset;
        uint32_t response;
    };

    PcieRegisters(Stalls& stalls, Violation& violation) : stalls_(stalls), violation_(violation) {}

    std::deque<Refused> refused_writes;  // none: nothing answers a write
    Packets* packets = nullptr;

    void clear(Vtop& top) {
        accesses_.clear();
        active_ = taken_ = false;
        top.link___05Fregister_requests___05Fvalid = top.link___05Fregister_completions___05Fready = 0;
        top.reset_request = 0;
        for (uint32_t vector = 0; vector < VECTORS; ++vector) {
            accesses_.push_back({MSIX_BAR, 16 * vector, INTERRUPT_ADDRESS, 2, true, 0});
            accesses_.push_back({MSIX_BAR, 16 * vector + 8, vector, 2, true, 0});
        }
    }

    void write(uint32_t offset, uint32_t value) { accesses_.push_back({REGISTER_BAR, offset, value, 1, true, 0}); }
    void read(uint32_t offset) { accesses_.push_back({REGISTER_BAR, offset, 0, 1, false, ++last_read_}); }
    void abandon() { accesses_.erase(accesses_.begin() + active_, accesses_.end()); }

    bool busy() const { return !accesses_.empty(); }
    bool read_done() const { return answered_read_ == last_read_; }
    uint32_t read_value() const { return read_value_; }
    uint32_t read_response() const { return read_response_; }

    void sample(const Vtop& top, uint64_t cycle) {
        if (active_ && top.link___05Fregister_requests___05Fvalid && top.link___05Fregister_requests___05Fready) {
            taken_ = true;
            const Access& access = accesses_.front();
            packets->note({cycle, access.offset, access.value, 4 * access.dwords,
                           access.write ? PACKET_REGISTER_WRITE : PACKET_REGISTER_READ,
                           static_cast<uint32_t>(access.number & 0x3FF), access.bar, 0, 0});
            if (access.write) finish();
        }
        if (top.link___05Fregister_completions___05Fvalid && top.link___05Fregister_completions___05Fready) {
            take_completion(&top.link___05Fregister_completions___05Fpayload[0], cycle);
        }
    }

    void drive(Vtop& top) {
        if (!active_ && !accesses_.empty() && !stalls_()) {
            active_ = true;
            taken_ = false;
        }
        top.link___05Fregister_requests___05Fvalid = active_ && !taken_;
        top.link___05Fregister_completions___05Fready = !stalls_();
        if (!active_) return;
        const Access& access = accesses_.front();
        uint32_t* words = &top.link___05Fregister_requests___05Fpayload[0];
        memset(words, 0, 32);
        set(words, register_request::address, access.offset);
        set(words, register_request::data, access.value);
        set(words, register_request::dwords, access.dwords);
        set(words, register_request::kind, access.write ? KIND_WRITE : KIND_READ);
        set(words, register_request::bar, access.bar);
        set(words, register_request::first_be, 0xF);
        set(words, register_request::last_be, access.dwords > 1 ? 0xF : 0);
        set(words, register_request::requester_id, REQUESTER);
        set(words, register_request::tag, access.number & 0x3FF);
    }

private:
    static constexpr uint32_t VECTORS = 32, REQUESTER = 0x0108;

    struct Access {
        uint32_t bar, offset;
        uint64_t value;
        uint32_t dwords;
        bool write;
        uint64_t number;  // of a read
    };

    void take_completion(const uint32_t* words, uint64_t cycle) {
        if (!active_ || !taken_ || accesses_.front().write) {
            violation_.report("a completion came for no register read");
            return;
        }
        const Access& access = accesses_.front();
        const uint64_t status = get(words, register_completion::status);
        const bool good = status == STATUS_SC;
        packets->note({cycle, access.offset, get(words, register_completion::data), good ? 4u : 0u,
                       PACKET_REGISTER_COMPLETION, static_cast<uint32_t>(access.number & 0x3FF), access.bar,
                       static_cast<uint32_t>(status), 0});
        if (get(words, register_completion::tag) != (access.number & 0x3FF) ||
            get(words, register_completion::requester_id) != REQUESTER ||
            get(words, register_completion::dwords) != good || get(words, register_completion::byte_count) != 4 ||
            get(words, register_completion::lower_address) != (good ? access.offset & 0x7F : 0)) {
            violation_.report("the completion of a read of register offset %#x has another read's fields",
                              access.offset);
        }
        answered_read_ = access.number;
        read_value_ = get(words, register_completion::data);
        read_response_ = good ? 0 : 2;
        finish();
    }

    void finish() {
        active_ = false;
        accesses_.pop_front();
    }

    Stalls& stalls_;
    Violation& violation_;
    std::deque<Access> accesses_;
    bool active_ = false, taken_ = false;  // the front access is in flight; its request was taken
    uint64_t last_read_ = 0, answered_read_ = 0;
    uint32_t read_value_ = 0, read_response_ = 0;
};
