// The steps that may follow a state. Each one writes the next state into `t` and gives it away.

#pragma once

#include "state.h"

class Steps {
  public:
    Steps(const State &state, const Sink &next) : s(state), sink(next) {}
    void all();

  private:
    // failures.cpp
    void kill();
    void lose_power();
    void restart();
    void forget(Node &node) const;
    void device_writes();
    void land(int slot);
    void messages();

    // record.cpp
    void etcd_applies();
    void read_record();
    void txn_answers();
    void adopt();
    void note_entry(u8 before, u8 term_before);
    void leases();
    void propose();
    void propose_takeover();
    void propose_restarted();
    void propose_drops();
    void propose_joins();
    void propose_with(int k, u8 leaves);
    void propose_handover();
    void send_txn(TxnKind kind, u8 primary, u8 in_sync, const u8 *incarnations, u8 no_lease_to);
    void open();

    // primary.cpp
    void primary();
    void reconcile();
    void begin_write(int slot);
    void activate();
    void send_writes(int slot);
    void local_write(int slot);
    void acknowledge(int slot);
    void activate_late();
    void flush();

    // resync.cpp
    void give_up_syncing();
    void join();
    void join_replica(int j);
    void copy();
    void settle();

    // reads.cpp
    void begin_read();
    void end_read();

    // Gives the state `t` away, described in the manner of printf.
    void emit(const char *format, ...) __attribute__((format(printf, 2, 3)));

    const Node &n() const { return s.nodes[i]; }
    Node &next() { return t.nodes[i]; }
    u8 me() const { return bit(i); }
    bool is_member() const { return has(n().in_sync, i); }
    // A replica is added by the proposal under way, or by one with an unknown outcome.
    bool is_adding() const { return n().proposal && (n().proposal_kind == JOIN || n().proposal_kind == EXCHANGE); }
    bool hands_over() const { return n().proposal && n().proposal_kind == HANDOVER; }
    // in_sync of both outcomes of a proposal under way.
    u8 both_in_sync() const { return n().in_sync | (n().proposal ? n().proposed_in_sync : 0); }
    bool has_leases() const;
    bool may_propose() const;

    const State &s;
    const Sink &sink;
    State t;
    int i = 0;
};

void sort_messages(State &state);
bool add_pending(Node &node, int value, int term, int flags);
void end_proposal(Node &node);
