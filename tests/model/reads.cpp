// Reads of the local device, by the primary or, in a settled tract, by a secondary; and the order of all steps.

#include <cstdarg>
#include <cstdio>

#include "steps.h"

void Steps::begin_read() {
    bool may_as_primary = n().open && n().primary == i && !n().unreconciled && !hands_over();
    bool may_as_secondary = options.secondary_reads && is_member() && !is_suspect(s, i) && n().primary != i &&
                            !n().active && !n().open;
    if (!is_member() || n().read || !(may_as_primary || may_as_secondary))
        return;
    if (mutants.earlylease && !has_leases())
        return;
    t = s;
    Node &node = next();
    ReadStage split = n().open ? SUBMITTED_BY_PRIMARY : SUBMITTED_BY_SECONDARY;
    ReadStage at_once = n().open ? READ_BY_PRIMARY : READ_BY_SECONDARY;
    node.read = options.split ? split : at_once;
    node.read_value = options.split ? 0 : n().cached;
    node.read_proven = s.proven;
    node.read_dead = s.dead;
    emit("node %d: local read submitted%s, device gives %d", i, n().open ? "" : " (secondary, settled)",
         n().cached);
}

// The device has given the bytes. They are answered only if the node may still read now.
void Steps::end_read() {
    if (n().read >= SUBMITTED_BY_PRIMARY) {
        t = s;
        next().read = n().read - 2;
        next().read_value = n().cached;
        emit("node %d: device gives %d to the read submitted before", i, n().cached);
    }
    if (n().read != READ_BY_PRIMARY && n().read != READ_BY_SECONDARY)
        return;
    bool as_primary = n().open && !n().unreconciled;
    bool as_secondary = n().primary != i && is_member() && !is_suspect(s, i) && (mutants.onelook || !n().active);
    bool may = as_primary || (n().read == READ_BY_SECONDARY && as_secondary);
    may = may && is_member() && !(n().primary == i && n().open && hands_over());
    t = s;
    Node &node = next();
    node.read = node.read_value = node.read_proven = node.read_dead = 0;
    if (may && (mutants.earlylease || has_leases())) {
        note_read(t, n().read_value, n().read_proven, n().read_dead);
        emit("node %d answers READ: %d%s", i, n().read_value, n().read == READ_BY_SECONDARY ? " (secondary)" : "");
    } else {
        emit("node %d discards the read", i);
    }
}

void Steps::all() {
    for (i = 0; i < N; i++) {
        kill();
        lose_power();
        device_writes();
        restart();
        if (!n().up)
            continue;
        read_record();
        if (!n().view)
            continue;
        txn_answers();
        leases();
        propose();
        open();
        primary();
        begin_read();
        end_read();
    }
    etcd_applies();
    messages();
}

void Steps::emit(const char *format, ...) {
    if (tracing) {
        char text[256];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        label = text;
    }
    sink(t);
}

void successors(const State &state, const Sink &sink) { Steps(state, sink).all(); }
