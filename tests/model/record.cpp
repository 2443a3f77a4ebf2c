// The record in etcd, the compare-and-swaps that change it, leases, and the opening of a primary.

#include <cstring>

#include "steps.h"

void end_proposal(Node &node) {
    node.proposal = NO_PROPOSAL;
    node.no_lease_to = node.proposal_kind = node.proposed_in_sync = 0;
}

// etcd does a transaction, late or not, or it never arrives.
void Steps::etcd_applies() {
    for (i = 0; i < N; i++) {
        const Txn &sent = s.txns[i];
        if (sent.status != TXN_LIVE && sent.status != TXN_ZOMBIE)
            continue;
        t = s;
        bool applies = sent.expected_revision == s.revision;
        if (applies) {
            t.revision++;
            t.term = sent.term;
            t.primary = sent.primary;
            t.in_sync = sent.in_sync;
            t.ever_in_sync |= sent.in_sync;
            memcpy(t.incarnations, sent.incarnations, N);
            for (int k = 0; k < N; k++)
                if (has(t.in_sync, k) && t.incarnations[k] == t.nodes[k].incarnation && t.nodes[k].up) {
                    t.power_lost &= ~bit(k);
                    t.killed &= ~bit(k);
                }
            excuse_lost_values(t);
            if (!has(t.in_sync, t.primary) || !t.in_sync)
                violated("the record's primary is not in sync");
        }
        bool is_zombie = sent.status == TXN_ZOMBIE;
        if (is_zombie)
            memset(&t.txns[i], 0, sizeof(Txn));
        else
            t.txns[i].status = applies ? TXN_WON : TXN_REFUSED;
        emit("etcd: txn of node %d %s%s", i, applies ? "applied" : "refused",
             is_zombie ? " (its answer is lost)" : "");
        if (is_zombie) {
            t = s;
            memset(&t.txns[i], 0, sizeof(Txn));
            emit("txn of node %d lost before etcd", i);
        }
    }
}

void Steps::read_record() {
    if (n().view == s.revision + 1 || n().proposal == PROPOSED)
        return;
    t = s;
    adopt();
    emit("node %d: reads the record: term %d primary %d in_sync %x", i, s.term, s.primary, s.in_sync);
}

// A node learns the outcome of its proposal, or gives up waiting for it.
void Steps::txn_answers() {
    const Txn &txn = s.txns[i];
    if (n().proposal == PROPOSED && txn.status >= TXN_WON) {
        t = s;
        memset(&t.txns[i], 0, sizeof(Txn));
        end_proposal(next());
        adopt();
        emit("node %d: learns that its txn %s", i, txn.status == TXN_WON ? "won" : "lost");
    }
    if (n().proposal == PROPOSED) {
        t = s;
        next().proposal = UNKNOWN;
        if (txn.status == TXN_LIVE)
            t.txns[i].status = TXN_ZOMBIE;
        else
            memset(&t.txns[i], 0, sizeof(Txn));
        if (mutants.unknownfails)
            end_proposal(next());
        emit("node %d: no answer to its txn: unknown", i);
    }
    // An unchanged record proves nothing, unless the transaction is lost for good.
    if (n().proposal == UNKNOWN && n().view == s.revision + 1 && (!rules.txn || !txn.status)) {
        t = s;
        end_proposal(next());
        if (rules.txn)
            emit("node %d: (its txn was lost; sent again later)", i);
        else
            emit("node %d: reads the record unchanged: takes its txn as not done", i);
    }
}

// The node goes by the record of etcd from now on, and its term is durable.
void Steps::adopt() {
    Node &node = next();
    if (node.view == t.revision + 1)
        return;
    u8 before = node.in_sync, term_before = node.term;
    bool was_open = node.open;
    node.view = t.revision + 1;
    node.term = t.term;
    node.primary = t.primary;
    node.in_sync = t.in_sync;
    memcpy(node.incarnations, t.incarnations, N);
    node.ever_in_sync = t.ever_in_sync;
    if (node.proposal) {
        // The record has moved past the comparison: the outcome is known.
        end_proposal(node);
        if (t.txns[i].status == TXN_LIVE)
            t.txns[i].status = TXN_ZOMBIE;
    }
    if (was_open && node.primary == i && has(node.in_sync, i)) {
        u8 gone = before & ~node.in_sync;
        if (node.writes[0].stage || node.writes[1].stage)
            node.dirty |= gone;
        node.syncing &= ~node.in_sync;
        node.settle_mask &= node.in_sync | node.syncing;
        if (gone && node.settle == FLUSHING)
            node.settle = node.settle_mask = 0;
    } else {
        node.open = 0;
        memset(node.writes, 0, sizeof node.writes);
        node.syncing = node.dirty = node.copied = node.unreconciled = 0;
        node.settle = node.settle_mask = node.settle_absent = 0;
        node.flush = node.flush_values = node.flush_mask = 0;
        node.activated = 0;
    }
    note_entry(before, term_before);
    if (node.read && rules.readgen && !has(node.in_sync, i))
        node.read = node.read_value = node.read_proven = node.read_dead = 0;
}

// A node that has entered in_sync counts as having given a lease to every other replica.
void Steps::note_entry(u8 before, u8 term_before) {
    Node &node = next();
    if (!has(node.in_sync, i)) {
        node.joined = 0;
        return;
    }
    if (has(before, i) && term_before)
        return;
    node.joined = 0;
    if (!rules.entry || !term_before || has(before, i))
        return;
    for (int holder = 0; holder < N; holder++) {
        if (holder == i || !has(node.in_sync, holder))
            continue;
        t.given[i] |= bit(holder);
        for (int k = 0; k < N; k++)
            if (k != i && has(t.held[holder], k))
                t.chained[i][holder] |= bit(k);
    }
}

// Leases are given to nodes that agree about the mirror, and end in any order that clocks allow.
void Steps::leases() {
    for (int j = 0; j < N; j++) {
        const Node &giver = s.nodes[j];
        if (j == i || !giver.up || !giver.view)
            continue;
        bool agree = giver.view == n().view || mutants.noview;
        bool replicas = has(giver.in_sync, j) || has(n().in_sync, j) || has(giver.syncing, i);
        bool meant = is_member() && (replicas || (n().primary == i && giver.joined) || mutants.noview);
        bool suspect = (has(giver.in_sync, j) && is_suspect(s, j)) || is_suspect(s, i);
        if (agree && meant && !has(giver.no_lease_to, i) && !(rules.suslease && suspect) && !has(s.held[i], j)) {
            t = s;
            t.held[i] |= bit(j);
            t.given[j] |= me();
            for (int k = 0; k < N; k++)
                t.chained[k][i] &= ~bit(j);
            emit("node %d gives node %d a lease", j, i);
        }
    }
    for (int j = 0; j < N; j++) {
        if (j == i || !has(s.given[i], j))
            continue;
        t = s;
        t.given[i] &= ~bit(j);
        t.held[j] &= ~me();
        t.held[j] &= ~t.chained[i][j];
        t.chained[i][j] = 0;
        emit("lease of node %d from node %d is over", j, i);
    }
}

bool Steps::has_leases() const {
    u8 needed = (mutants.oneworld ? n().in_sync : both_in_sync()) & ~me();
    return (s.held[i] & needed) == needed;
}

bool Steps::may_propose() const {
    return !s.txns[i].status && n().proposal == NO_PROPOSAL && n().view == s.revision + 1 &&
           s.term < options.terms && n().term;
}

void Steps::send_txn(TxnKind kind, u8 primary, u8 in_sync, const u8 *incarnations, u8 no_lease_to) {
    Txn &txn = t.txns[i];
    txn.status = TXN_LIVE;
    txn.expected_revision = next().view - 1;
    txn.term = s.term + 1;
    txn.primary = primary;
    txn.in_sync = in_sync;
    memcpy(txn.incarnations, incarnations, N);
    txn.kind = kind;
    next().proposal = PROPOSED;
    next().no_lease_to = no_lease_to;
    next().proposal_kind = kind;
    next().proposed_in_sync = in_sync;
}

void Steps::propose() {
    if (!may_propose())
        return;
    bool drained = !rules.drainp || !has_pending(n());
    bool suspect = is_suspect(s, i);
    if (is_member() && !suspect && n().primary != i && drained)
        propose_takeover();
    if (is_member() && suspect && drained)
        propose_restarted();
    if (mutants.outsider && !is_member()) {
        u8 incarnations[N];
        memcpy(incarnations, n().incarnations, N);
        incarnations[i] = n().incarnation;
        t = s;
        send_txn(RESTARTED, static_cast<u8>(i), me(), incarnations, n().in_sync);
        emit("node %d (out of sync) proposes itself", i);
    }
    if (is_member() && !suspect && n().primary == i) {
        propose_drops();
        if (n().open) {
            propose_joins();
            propose_handover();
        }
    }
}

// A secondary takes over, without the primary and without any of the others.
void Steps::propose_takeover() {
    u8 others = n().in_sync & ~me() & ~bit(n().primary);
    for (u8 kept = others;; kept = (kept - 1) & others) {
        u8 in_sync = me() | kept, dropped = n().in_sync & ~in_sync;
        if (mutants.nowait || !(s.given[i] & dropped)) {
            t = s;
            send_txn(TAKEOVER, static_cast<u8>(i), in_sync, n().incarnations, dropped);
            emit("node %d proposes to take over: term %d in_sync %x", i, s.term + 1, in_sync);
        }
        if (!kept)
            break;
    }
}

// A restarted replica takes over only if all others have restarted, too, and none kept more than it did.
void Steps::propose_restarted() {
    u8 others = n().in_sync & ~me();
    bool may = true, kept_more = false;
    for (int k = 0; rules.susp && k < N; k++) {
        if (!has(others, k))
            continue;
        const Node &other = s.nodes[k];
        may &= other.up && other.view == n().view && is_suspect(s, k);
        kept_more |= !has(s.power_lost, k);
    }
    if (rules.susp && others) {
        bool lost_power = has(s.power_lost, i);
        bool primary_kept = n().primary != i && has(others, n().primary) && !has(s.power_lost, n().primary);
        may &= lost_power ? !kept_more : !primary_kept;
    }
    if (!may || (!mutants.nowait && s.given[i] & others))
        return;
    u8 incarnations[N];
    memcpy(incarnations, n().incarnations, N);
    incarnations[i] = n().incarnation;
    t = s;
    send_txn(RESTARTED, static_cast<u8>(i), me(), incarnations, others);
    emit("node %d (restarted) proposes itself: term %d in_sync {%d}", i, s.term + 1, i);
}

void Steps::propose_drops() {
    for (int k = 0; k < N; k++) {
        bool waited = mutants.nowait || !has(s.given[i], k);
        bool reason = options.spurious || n().writes[0].stage || !s.nodes[k].up ||
                      s.nodes[k].incarnation != n().incarnations[k];
        if (k == i || !has(n().in_sync, k) || !waited || !reason)
            continue;
        t = s;
        send_txn(DROP, static_cast<u8>(i), n().in_sync & ~bit(k), n().incarnations, bit(k));
        emit("node %d proposes to drop node %d: term %d", i, k, s.term + 1);
    }
}

// A resynced replica has nothing left to copy: it is flushed and proposed. With -two, a mirror that has two replicas
// in sync exchanges it for the one that is not the primary.
void Steps::propose_joins() {
    bool writes = n().writes[0].stage || n().writes[1].stage;
    bool is_full = options.two && __builtin_popcount(n().in_sync) == 2;
    u8 leaves = is_full ? n().in_sync & ~me() : 0;
    bool waited = !(s.given[i] & leaves) || !rules.exwait || mutants.nowait;
    for (int k = 0; k < N; k++) {
        const Node &other = s.nodes[k];
        bool is_equal = has(n().syncing, k) && !has(n().dirty | n().missed | n().copied, k);
        bool is_copied = is_equal || (leaves && !rules.exequal && has(n().syncing, k));
        bool is_there = has(s.held[i], k) && other.up && other.view == n().view && other.joined;
        bool is_covered = !rules.syncact || !n().active_on_disk || other.active_on_disk;
        if (is_copied && is_there && is_covered && waited && !(rules.jrecv && writes))
            propose_with(k, leaves);
    }
}

// Proposes a replica in sync, in the place of those that leave.
void Steps::propose_with(int k, u8 leaves) {
    u8 incarnations[N];
    memcpy(incarnations, n().incarnations, N);
    incarnations[k] = s.nodes[k].incarnation;
    t = s;
    if (!mutants.earlyclear)
        t.nodes[k].on_disk = t.nodes[k].cached;
    if (rules.missjoin)
        t.nodes[k].missed |= n().missed & ~bit(k);
    u8 no_lease_to = leaves | (rules.entry ? n().in_sync & ~me() : 0);
    u8 in_sync = (n().in_sync & ~leaves) | bit(k);
    send_txn(leaves ? EXCHANGE : JOIN, static_cast<u8>(i), in_sync, incarnations, no_lease_to);
    if (leaves)
        emit("node %d: node %d flushed, proposes it in sync for %x: term %d", i, k, leaves, s.term + 1);
    else
        emit("node %d: node %d flushed, proposes it in sync: term %d", i, k, s.term + 1);
}

void Steps::propose_handover() {
    if (!options.handover || n().writes[0].stage || n().writes[1].stage || n().flush)
        return;
    for (int k = 0; k < N; k++) {
        const Node &other = s.nodes[k];
        bool is_ready = other.up && other.view == n().view && other.incarnation == n().incarnations[k];
        if (k == i || !has(n().in_sync, k) || !is_ready || has_pending(other))
            continue;
        t = s;
        send_txn(HANDOVER, static_cast<u8>(k), n().in_sync, n().incarnations, 0);
        emit("node %d hands over to node %d: term %d", i, k, s.term + 1);
    }
}

// The primary of a new term opens when every replica has the term and has drained what it accepted before.
void Steps::open() {
    if (n().primary != i || !is_member() || n().open || is_suspect(s, i) || n().proposal)
        return;
    bool drained = mutants.opennodrain || !has_pending(n());
    u8 active = n().active_on_disk | n().active;
    for (int j = 0; j < N; j++) {
        if (j == i || !has(n().in_sync, j))
            continue;
        const Node &other = s.nodes[j];
        bool has_term = other.up && other.term == n().term && !is_suspect(s, j);
        drained &= has_term && (mutants.opennodrain || !has_pending(other));
        active |= other.active_on_disk | other.active;
    }
    if (!drained)
        return;
    t = s;
    Node &node = next();
    node.open = 1;
    node.active = node.active_on_disk = active;
    node.unreconciled = active && (n().in_sync & ~me()) && !mutants.nopush;
    node.activated = 0;
    if (active) {
        for (int j = 0; rules.union_ && j < N; j++)
            if (j != i && has(n().in_sync, j))
                t.nodes[j].active = t.nodes[j].active_on_disk = 1;
        node.activated = n().in_sync;
    }
    emit("node %d: drained, opens as primary of term %d (tract %s)", i, n().term, active ? "active" : "settled");
}
