// The return of a replica that is out of sync, and the end of a tract's activity.

#include "steps.h"

// A replica that is only being resynced is given up without a new term.
void Steps::give_up_syncing() {
    for (int j = 0; j < N; j++) {
        bool is_due = rules.jdrain && is_adding();
        if (!has(n().syncing, j) || is_due || !(n().writes[0].stage || !s.nodes[j].up))
            continue;
        t = s;
        Node &node = next();
        node.syncing &= ~bit(j);
        node.copied &= ~bit(j);
        if (node.writes[0].stage || node.writes[1].stage)
            node.dirty |= bit(j);
        node.settle_mask &= ~bit(j);
        emit("node %d gives up syncing node %d", i, j);
    }
}

void Steps::join() {
    for (int j = 0; options.join && j < N; j++) {
        const Node &other = s.nodes[j];
        bool is_out = j != i && !has(n().in_sync, j) && !has(n().syncing, j);
        bool is_drained = !rules.jpend || !has_pending(other);
        if (is_out && other.up && other.view == n().view && is_drained && !n().proposal)
            join_replica(j);
    }
}

void Steps::join_replica(int j) {
    t = s;
    Node &node = next(), &other = t.nodes[j];
    node.syncing |= bit(j);
    node.copied &= ~bit(j);
    other.joined = 1;
    other.open = 0;
    if (rules.jsess) {
        for (Message &message : t.messages)
            if (message.term && message.from == i && message.to == j)
                message = {};
        sort_messages(t);
    }
    bool other_active = !mutants.joinnoactive && other.active_on_disk;
    bool differs = has(n().missed | n().dirty, j) || n().active || n().active_on_disk || n().writes[0].stage ||
                   other_active || (rules.whole && !has(n().ever_in_sync, j));
    if (differs)
        node.dirty |= bit(j);
    if (rules.jmiss && other_active)
        node.missed |= bit(j);
    if (n().settle)
        node.settle = node.settle_mask = 0;
    if (n().active) {
        if (rules.syncact)
            other.active = other.active_on_disk = 1;
        node.activated |= bit(j);
    } else {
        node.activated &= ~bit(j);
    }
    emit("node %d JOINs: node %d sends writes, set %s", j, i, differs ? "not empty" : "empty");
}

// Bits are cleared when the copy has been flushed.
void Steps::copy() {
    bool quiet = !n().writes[0].stage && !n().writes[1].stage;
    for (int j = 0; j < N; j++) {
        const Node &other = s.nodes[j];
        if (!has(n().syncing, j) || !other.up || !other.joined || other.term != n().term)
            continue;
        bool is_missing = has(n().dirty | n().missed, j) && !has(n().copied, j);
        bool is_drained = !has_pending(other) || !rules.jpend;
        if (is_missing && (mutants.copyrace || (quiet && is_drained))) {
            t = s;
            t.nodes[j].cached = n().cached;
            if (mutants.earlyclear) {
                next().dirty &= ~bit(j);
                next().missed &= ~bit(j);
            } else {
                next().copied |= bit(j);
            }
            emit("node %d copies the block (%d) to node %d", i, n().cached, j);
        }
        if (has(n().copied, j)) {
            t = s;
            t.nodes[j].on_disk = t.nodes[j].cached;
            next().copied &= ~bit(j);
            next().dirty &= ~bit(j);
            next().missed &= ~bit(j);
            emit("node %d flushed: its bits cleared at node %d", j, i);
        }
    }
}

// active -> settled: a flush everywhere, then the primary's bit, then the others'.
void Steps::settle() {
    bool quiet = !n().writes[0].stage && !n().writes[1].stage;
    if (options.settle && quiet && n().active && !n().unreconciled && !n().proposal && !n().settle) {
        t = s;
        next().settle = FLUSHING;
        next().settle_mask = 0;
        emit("node %d: tract quiet, settle begins", i);
    }
    if (n().settle == FLUSHING && !n().writes[0].stage) {
        for (int j = 0; j < N; j++) {
            const Node &other = s.nodes[j];
            bool is_open = other.up && other.term == n().term && !is_suspect(s, j) && !has_pending(other);
            if (!has(n().in_sync, j) || has(n().settle_mask, j) || !is_open)
                continue;
            t = s;
            if (!mutants.settlenoflush)
                t.nodes[j].on_disk = t.nodes[j].cached;
            next().settle_mask |= bit(j);
            emit("node %d: FLUSH at node %d for the settle", i, j);
        }
        if ((n().settle_mask & n().in_sync) == n().in_sync && !n().proposal) {
            t = s;
            Node &node = next();
            u8 present = rules.syncabs ? n().in_sync : n().in_sync | n().syncing;
            node.settle_absent = ALL & ~present;
            node.missed |= node.settle_absent;
            node.active = node.active_on_disk = 0;
            node.activated = 0;
            node.settle_mask = (n().in_sync & ~me()) | n().syncing;
            node.settle = node.settle_mask ? TELLING : NO_SETTLE;
            emit("node %d: settled here (missed %x)", i, node.settle_absent);
        }
    }
    if (n().settle != TELLING)
        return;
    for (int j = 0; j < N; j++) {
        const Node &other = s.nodes[j];
        bool accepts = other.up && other.term == n().term && other.primary == i && !other.proposal;
        bool is_replica = (has(other.in_sync, j) && !is_suspect(s, j)) || other.joined;
        if (!has(n().settle_mask, j) || !accepts || !is_replica)
            continue;
        t = s;
        t.nodes[j].active = t.nodes[j].active_on_disk = 0;
        if (rules.missall)
            t.nodes[j].missed |= n().settle_absent & ~bit(j);
        next().settle_mask &= ~bit(j);
        if (!next().settle_mask)
            next().settle = next().settle_absent = 0;
        emit("node %d: SETTLE at node %d", i, j);
    }
}
