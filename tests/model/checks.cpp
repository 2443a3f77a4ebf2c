// What must hold: the invariants of every state, and the history that hosts see.

#include <algorithm>
#include <cstring>

#include "state.h"

void violated(const std::string &message) {
    if (violation.empty())
        violation = message;
}

// A read has returned `value`. The masks are those of the moment when it began.
void note_read(State &state, int value, u8 proven_before, u8 dead_before) {
    if (value >= state.next)
        violated("a read returned what nobody has written");
    if (has(dead_before, value))
        violated("flush: a read returned a value that a completed FLUSH had superseded durably");
    for (int other = 0; other < VALUES_MAX; other++)
        if (other != value && has(proven_before, other))
            state.before[other] |= bit(value);
    state.proven |= bit(value);
    for (int a = 0; a < VALUES_MAX; a++)
        for (int b = a + 1; b < VALUES_MAX; b++)
            if (has(state.before[a], b) && has(state.before[b], a))
                violated("not linearizable (value " + std::to_string(value) +
                         " read; a later value had been acknowledged or read before)");
}

// Values that may be lost: all replicas of the record have lost power; or, for what was read but never
// acknowledged, all have at least been killed and the primary has lost power.
void excuse_lost_values(State &state) {
    bool all_lost_power = true, all_lost_memory = true;
    for (int i = 0; i < N; i++) {
        if (!has(state.in_sync, i))
            continue;
        all_lost_power &= has(state.power_lost, i);
        all_lost_memory &= has(state.power_lost | state.killed, i);
    }
    if (all_lost_power) {
        memset(state.before, 0, sizeof state.before);
        state.proven = state.acked = 0;
    } else if (all_lost_memory && has(state.power_lost, state.primary)) {
        state.proven &= state.acked;
        for (int value = 0; value < VALUES_MAX; value++)
            state.before[value] = has(state.acked, value) ? state.before[value] & state.acked : 0;
    }
}

static bool differ_uncovered(const Node &a, const Node &b, int b_number) {
    bool differ = a.cached != b.cached || a.on_disk != b.on_disk;
    return differ && has(a.ever_in_sync, b_number) && !a.active_on_disk && !b.active_on_disk && !has(a.missed, b_number);
}

void check_invariants(const State &state) {
    for (int a = 0; a < N; a++)
        for (int b = a + 1; b < N; b++)
            if (state.nodes[a].open && state.nodes[b].open && state.nodes[a].term == state.nodes[b].term)
                violated("two open primaries in one term");
    for (int a = 0; a < N; a++) {
        if (!has(state.in_sync, a) || state.incarnations[a] != state.nodes[a].incarnation)
            continue;
        for (int b = 0; b < N; b++)
            if (a != b && differ_uncovered(state.nodes[a], state.nodes[b], b))
                violated("replicas " + std::to_string(a) + " (in sync) and " + std::to_string(b) +
                         " differ, and no ACTIVE or MISSED bit on disk covers it");
    }
}
