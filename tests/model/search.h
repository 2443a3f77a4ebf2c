// Containers of the search: a queue of states as small as possible, and the states that were seen.

#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "state.h"

// Most bytes of a state are zero: each eight bytes become a mask and the bytes that are not zero.
class Queue {
  public:
    void push(const State &state) {
        const u8 *bytes = reinterpret_cast<const u8 *>(&state);
        for (size_t start = 0; start < sizeof(State); start += 8) {
            u8 mask = 0;
            for (size_t k = 0; k < 8 && start + k < sizeof(State); k++)
                if (bytes[start + k])
                    mask |= static_cast<u8>(1 << k);
            put(mask);
            for (size_t k = 0; k < 8; k++)
                if (mask >> k & 1)
                    put(bytes[start + k]);
        }
    }

    State pop() {
        State state;
        memset(&state, 0, sizeof state);
        u8 *bytes = reinterpret_cast<u8 *>(&state);
        for (size_t start = 0; start < sizeof(State); start += 8) {
            u8 mask = get();
            for (size_t k = 0; k < 8; k++)
                if (mask >> k & 1)
                    bytes[start + k] = get();
        }
        return state;
    }

    size_t len() const { return chunks.size() * CHUNK_LEN; }

  private:
    static constexpr size_t CHUNK_LEN = 1 << 22;
    using Chunk = std::array<u8, CHUNK_LEN>;

    void put(u8 byte) {
        if (write_at == CHUNK_LEN) {
            chunks.emplace_back(new Chunk);
            write_at = 0;
        }
        (*chunks.back())[write_at++] = byte;
    }

    u8 get() {
        if (read_at == CHUNK_LEN) {
            chunks.pop_front();
            read_at = 0;
        }
        return (*chunks.front())[read_at++];
    }

    std::deque<std::unique_ptr<Chunk>> chunks;
    size_t read_at = 0, write_at = CHUNK_LEN;
};

// The states that were found, as 64 bits each. Two states with the same 64 bits count as one, which happens
// about once in ten thousand searches of 40 million states.
class Seen {
  public:
    explicit Seen(size_t states_max) {
        size_t places = 1 << 16;
        while (static_cast<double>(places) * 0.8 < static_cast<double>(states_max))
            places *= 2;
        table.reset(static_cast<uint64_t *>(calloc(places, sizeof(uint64_t))));
        mask = places - 1;
    }

    // Whether the state is a new one.
    bool insert(uint64_t print) {
        size_t place = print & mask;
        for (; table[place]; place = (place + 1) & mask)
            if (table[place] == print)
                return false;
        table[place] = print;
        return true;
    }

  private:
    struct Free {
        void operator()(uint64_t *memory) const { free(memory); }
    };
    std::unique_ptr<uint64_t[], Free> table;
    size_t mask = 0;
};

inline uint64_t fingerprint(const State &state) {
    const u8 *bytes = reinterpret_cast<const u8 *>(&state);
    uint64_t hash = 0x9E3779B97F4A7C15;
    size_t at = 0;
    for (; at + 8 <= sizeof(State); at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCD;
        hash ^= hash >> 32;
    }
    uint64_t word = 0;
    memcpy(&word, bytes + at, sizeof(State) - at);
    hash = (hash ^ word) * 0xC4CEB9FE1A85EC53;
    hash ^= hash >> 29;
    hash *= 0xFF51AFD7ED558CCD;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}
