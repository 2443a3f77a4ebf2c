// The work of an open primary: writes, flushes, and what it pushes after a takeover.

#include <cstring>

#include "steps.h"

void Steps::primary() {
    if (!n().open || !is_member() || n().primary != i)
        return;
    reconcile();
    if (s.next <= options.writes && !hands_over() && !n().unreconciled) {
        if (!n().writes[0].stage)
            begin_write(0);
        else if (mutants.nolock && !n().writes[1].stage)
            begin_write(1);
    }
    activate();
    send_writes(0);
    send_writes(1);
    local_write(0);
    local_write(1);
    acknowledge(0);
    acknowledge(1);
    activate_late();
    give_up_syncing();
    join();
    copy();
    settle();
    flush();
}

// After a takeover with other replicas: they get what the primary has.
void Steps::reconcile() {
    u8 others = n().in_sync & ~me();
    if (!n().unreconciled || n().writes[0].stage || hands_over())
        return;
    for (int j = 0; j < N; j++) {
        const Node &other = s.nodes[j];
        if (has(others, j) && (!other.up || other.term != n().term || other.pending[0].value || other.proposal))
            return;
    }
    t = s;
    next().unreconciled = 0;
    for (int j = 0; j < N; j++)
        if (has(others, j))
            t.nodes[j].cached = n().cached;
    emit("node %d: reconciles (pushes what it has)", i);
}

void Steps::begin_write(int slot) {
    t = s;
    Node &node = next();
    int value = t.next++;
    for (int older = 0; older < VALUES_MAX; older++)
        if (has(t.proven, older))
            t.before[older] |= bit(value);
    node.settle = node.settle_mask = 0;
    u8 targets = (n().in_sync & ~me()) | n().syncing;
    node.writes[slot] = {ACTIVATING, static_cast<u8>(value), targets, 0, 0, NOT_STARTED};
    node.dirty |= ALL & ~(n().in_sync | n().syncing);
    if (!node.active)
        node.activated = me();
    if (!mutants.lateactive)
        node.active = node.active_on_disk = 1;
    emit("host: WRITE %d at node %d", value, i);
}

// A write waits until every replica that gets it knows that the tract is active.
void Steps::activate() {
    const Write &write = n().writes[0];
    if (write.stage != ACTIVATING || mutants.lateactive)
        return;
    u8 targets = write.targets & (n().in_sync | n().syncing);
    for (int j = 0; j < N; j++) {
        const Node &other = s.nodes[j];
        bool accepts = other.up && other.term == n().term && other.primary == i && !other.proposal;
        bool is_replica = (has(other.in_sync, j) && !is_suspect(s, j)) || other.joined;
        if (!has(targets, j) || has(n().activated, j) || !accepts || !is_replica)
            continue;
        t = s;
        t.nodes[j].active = t.nodes[j].active_on_disk = 1;
        next().activated |= bit(j);
        emit("node %d: tract active at node %d", i, j);
    }
}

void Steps::send_writes(int slot) {
    const Write &write = n().writes[slot];
    u8 targets = write.targets & (n().in_sync | n().syncing);
    bool is_active = (mutants.lateactive && slot == 0) || !(targets & ~n().activated);
    if (write.stage != ACTIVATING || !is_active)
        return;
    t = s;
    int free = 0;
    for (const Message &message : t.messages)
        free += !message.term;
    if (free < __builtin_popcount(targets))
        return;
    int q = 0;
    for (int j = 0; j < N; j++) {
        if (!has(targets, j))
            continue;
        while (t.messages[q].term)
            q++;
        t.messages[q] = {static_cast<u8>(i), static_cast<u8>(j), n().term, write.value};
    }
    sort_messages(t);
    next().writes[slot].stage = SENT;
    if (slot == 0)
        emit("node %d sends WRITE %d to %x", i, write.value, targets);
    else
        emit("node %d sends second WRITE %d", i, write.value);
}

// The primary's own write begins when every replica in sync has accepted the bytes.
void Steps::local_write(int slot) {
    const Write &write = n().writes[slot];
    u8 needed = (rules.jrecv ? both_in_sync() : n().in_sync) & write.targets;
    bool received = mutants.noreceived || (write.received & needed) == needed;
    if (write.stage != SENT || write.local != NOT_STARTED || !received)
        return;
    t = s;
    if (add_pending(next(), write.value, n().term, OWN)) {
        next().writes[slot].local = STARTED;
        emit("node %d: all RECEIVED, local write of %d starts", i, write.value);
    }
}

void Steps::acknowledge(int slot) {
    const Write &write = n().writes[slot];
    u8 needed = (n().in_sync | n().syncing) & write.targets;
    if (write.stage != SENT || write.local != DONE || (write.done & needed) != needed)
        return;
    t = s;
    memset(&next().writes[slot], 0, sizeof(Write));
    if (mutants.lateactive)
        next().active = next().active_on_disk = 1;
    t.proven |= bit(write.value);
    t.acked |= bit(write.value);
    note_read(t, write.value, 0, 0);
    emit("node %d acknowledges WRITE %d", i, write.value);
}

void Steps::activate_late() {
    if (!mutants.lateactive || n().active != 1 || n().activated == n().in_sync)
        return;
    u8 others = n().in_sync & ~me();
    for (int j = 0; j < N; j++) {
        if (!has(others, j) || has(n().activated, j) || !s.nodes[j].up || s.nodes[j].term != n().term)
            continue;
        t = s;
        t.nodes[j].active = t.nodes[j].active_on_disk = 1;
        next().activated |= bit(j) | me();
        emit("(late ACTIVATE at %d)", j);
    }
}

// A host's flush: it covers what had been acknowledged when it began.
void Steps::flush() {
    if (options.flush && !n().flush && s.acked & ~1 && !n().proposal) {
        t = s;
        next().flush = 1;
        next().flush_values = s.acked;
        next().flush_mask = 0;
        emit("host: FLUSH at node %d", i);
    }
    if (!n().flush)
        return;
    for (int j = 0; j < N; j++) {
        const Node &other = s.nodes[j];
        bool is_open_replica = other.up && other.term == n().term && !is_suspect(s, j);
        if (!has(n().in_sync, j) || has(n().flush_mask, j) || !is_open_replica)
            continue;
        t = s;
        t.nodes[j].on_disk = t.nodes[j].cached;
        next().flush_mask |= bit(j);
        emit("node %d: FLUSH at device of node %d", i, j);
    }
    u8 needed = mutants.localflush ? me() : n().in_sync;
    if ((n().flush_mask & needed) != needed)
        return;
    t = s;
    for (int value = 0; value < VALUES_MAX; value++)
        for (int older = 0; has(n().flush_values, value) && older < VALUES_MAX; older++)
            if (older != value && has(s.before[older], value))
                t.dead |= bit(older);
    next().flush = next().flush_values = next().flush_mask = 0;
    emit("node %d acknowledges FLUSH", i);
}
