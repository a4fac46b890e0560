// Small parts that the bus models share: a ring, seeded stalls, and the record of broken protocol rules.

#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "ports.h"

// Bytes per beat of host bus and link.
constexpr uint32_t BEAT = DATA_WIDTH / 8;
constexpr uint64_t FULL_BEAT = BEAT == 64 ? ~uint64_t{0} : (uint64_t{1} << (BEAT & 63)) - 1;

// First in, first out in place, so that the cycle loop never allocates. The caller checks full() and empty().
template <typename Item, uint32_t Capacity>
class Ring {
    static_assert((Capacity & (Capacity - 1)) == 0, "the capacity must be a power of two");

public:
    bool empty() const { return head_ == tail_; }
    bool full() const { return tail_ - head_ == Capacity; }
    Item& front() { return items_[head_ & (Capacity - 1)]; }
    void push(const Item& item) { items_[tail_++ & (Capacity - 1)] = item; }
    void pop() { ++head_; }
    void clear() { head_ = tail_ = 0; }

private:
    Item items_[Capacity];
    uint32_t head_ = 0;
    uint32_t tail_ = 0;
};

// Decides, handshake by handshake, whether to withhold ready or a new valid. xorshift64* (Vigna 2016).
class Stalls {
public:
    Stalls(uint32_t threshold, uint64_t seed) : threshold_(threshold), state_(seed * 2 + 1) {}

    bool operator()() {
        if (threshold_ == 0) return false;
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return ((state_ * 0x2545F4914F6CDD1Dull) >> 56) < threshold_;
    }

private:
    const uint32_t threshold_;
    uint64_t state_;
};

// The first protocol rule that the design broke, in words.
class Violation {
public:
    bool any() const { return text_[0] != 0; }
    const char* text() const { return text_; }
    void clear() { text_[0] = 0; }

    __attribute__((format(printf, 2, 3))) void report(const char* format, ...) {
        if (any()) return;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text_, sizeof text_, format, arguments);
        va_end(arguments);
    }

private:
    char text_[256] = {0};
};

// Watches one channel on which the design is the source: what it offers must stay until it is accepted.
class SourceRule {
public:
    explicit SourceRule(const char* channel) : channel_(channel) {}

    void check(bool valid, bool ready, const void* payload, uint32_t size, uint64_t cycle, Violation& violation) {
        if (!refused_ && (ready || !valid)) return;
        if (refused_) {
            if (!valid) {
                violation.report("cycle %llu: %s valid fell before the transfer", ull(cycle), channel_);
            } else if (memcmp(payload_, payload, size) != 0) {
                violation.report("cycle %llu: %s payload changed before the transfer", ull(cycle), channel_);
            }
        }
        refused_ = valid && !ready;
        if (refused_) memcpy(payload_, payload, size);
    }

    void clear() { refused_ = false; }

private:
    static unsigned long long ull(uint64_t value) { return value; }

    const char* const channel_;
    bool refused_ = false;
    uint8_t payload_[BEAT + 16];
};
