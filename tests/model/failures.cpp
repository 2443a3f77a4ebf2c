// Kills, losses of power, restarts, the device's own steps, and messages between nodes.

#include <algorithm>
#include <cstring>

#include "steps.h"

void sort_messages(State &state) {
    std::sort(state.messages, state.messages + MESSAGES_MAX,
              [](const Message &a, const Message &b) { return memcmp(&a, &b, sizeof a) > 0; });
}

bool add_pending(Node &node, int value, int term, int flags) {
    for (Pending &pending : node.pending)
        if (!pending.value) {
            pending = {static_cast<u8>(value + 1), static_cast<u8>(term), static_cast<u8>(flags)};
            return true;
        }
    return false;
}

// The process of node i ends: only its slice is left.
void Steps::forget(Node &node) const {
    Node left;
    memset(&left, 0, sizeof left);
    left.incarnation = node.incarnation;
    left.active_on_disk = node.active_on_disk;
    left.missed = node.missed;
    left.cached = node.cached;
    left.on_disk = node.on_disk;
    node = left;
}

static void end_process(State &state, int i) {
    state.held[i] = 0;
    if (!rules.boot) {
        state.given[i] = 0;
        memset(state.chained[i], 0, N);
    }
    if (state.txns[i].status == TXN_LIVE)
        state.txns[i].status = TXN_ZOMBIE;
    else if (state.txns[i].status >= TXN_WON)
        memset(&state.txns[i], 0, sizeof(Txn));
}

// Memory is lost; the device keeps its cache, and any of the writes that it has not done yet.
void Steps::kill() {
    if (!n().up || s.kills >= options.kills)
        return;
    int pending = n().pending[0].value ? (n().pending[1].value ? 2 : 1) : 0;
    int combinations = options.ghosts ? 1 << pending : 1;
    for (int kept = 0; kept < combinations; kept++) {
        t = s;
        t.kills++;
        forget(next());
        int count = 0;
        for (int slot = 0; slot < 2; slot++)
            if (n().pending[slot].value && has(kept, slot)) {
                next().pending[count] = n().pending[slot];
                next().pending[count++].flags |= GHOST;
            }
        end_process(t, i);
        t.killed |= me();
        excuse_lost_values(t);
        emit("node %d: killed (memory lost%s)", i, kept ? ", device write still in flight" : "");
    }
}

// The device's cache is lost, or was written back just before.
void Steps::lose_power() {
    if (!n().up || s.powers >= options.powers)
        return;
    for (int written_back = 0; written_back < (n().cached != n().on_disk ? 2 : 1); written_back++) {
        t = s;
        t.powers++;
        forget(next());
        u8 value = written_back ? n().cached : n().on_disk;
        next().cached = next().on_disk = value;
        end_process(t, i);
        t.power_lost |= me();
        excuse_lost_values(t);
        emit("node %d: loses power; block now %d", i, value);
    }
}

void Steps::restart() {
    if (n().up || (rules.ghost && n().pending[0].value))
        return;
    t = s;
    next().up = 1;
    next().incarnation++;
    next().active = next().active_on_disk;
    if (rules.txinc && t.txns[i].status)
        memset(&t.txns[i], 0, sizeof(Txn));
    emit("node %d: restarts as incarnation %d", i, next().incarnation);
}

void Steps::device_writes() {
    for (int slot = 0; slot < 2; slot++) {
        const Pending &pending = n().pending[slot];
        if (!pending.value || !(n().up || pending.flags & GHOST))
            continue;
        t = s;
        land(slot);
        emit("node %d: device write of %d (term %d)%s done", i, pending.value - 1, pending.term,
             pending.flags & GHOST ? " GHOST of the dead process" : "");
    }
}

// A device write is done, and whoever waits for it is told.
void Steps::land(int slot) {
    Node &node = next();
    Pending done = node.pending[slot];
    int value = done.value - 1;
    node.cached = static_cast<u8>(value);
    node.pending[slot] = {};
    if (!node.pending[0].value) {
        node.pending[0] = node.pending[1];
        node.pending[1] = {};
    }
    if (done.flags & GHOST)
        return;
    if (done.flags & OWN) {
        for (Write &write : node.writes)
            if (write.stage && write.value == value && write.local == STARTED) {
                write.local = DONE;
                return;
            }
        return;
    }
    for (int other = 0; other < N; other++)
        if (other != i && t.nodes[other].up)
            for (Write &write : t.nodes[other].writes)
                if (write.stage >= SENT && write.value == value)
                    write.done |= me();
}

// A replica write arrives, and is accepted; or it is refused or lost.
void Steps::messages() {
    for (int q = 0; q < MESSAGES_MAX; q++) {
        Message message = s.messages[q];
        if (!message.term)
            continue;
        t = s;
        t.messages[q] = {};
        sort_messages(t);
        State lost = t;
        Node &node = t.nodes[message.to];
        bool of_this_term = node.term == message.term && node.primary == message.from;
        bool is_replica = has(node.in_sync, message.to) && (!is_suspect(s, message.to) || mutants.oldinc);
        bool accepts = mutants.noterm || (of_this_term && !node.proposal && (is_replica || node.joined));
        if (node.up && node.view && accepts && add_pending(node, message.value, message.term, 0)) {
            Node &sender = t.nodes[message.from];
            for (Write &write : sender.writes)
                if (sender.up && write.stage == SENT && write.value == message.value)
                    write.received |= bit(message.to);
            emit("node %d: RECEIVED %d (term %d) from node %d", message.to, message.value, message.term,
                 message.from);
        }
        t = lost;
        emit("WRITE %d from %d to %d lost or refused", message.value, message.from, message.to);
    }
}
