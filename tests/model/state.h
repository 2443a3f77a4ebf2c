// The state of the model, the switches of a run, and what every step needs.
//
// Sets of replicas and of values are bit masks of one byte. Every member is a byte, so that a state has no
// padding: it is compared, hashed and stored as bytes.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#ifndef REPLICAS
#define REPLICAS 2
#endif

using u8 = uint8_t;

constexpr int N = REPLICAS;
constexpr u8 ALL = (1 << N) - 1;
constexpr int MESSAGES_MAX = 4;
constexpr int VALUES_MAX = 4;

inline u8 bit(int replica) { return static_cast<u8>(1 << replica); }
inline bool has(unsigned set, int member) { return set >> member & 1; }

// Flags of a pending device write.
constexpr u8 OWN = 1;   // the primary's local write
constexpr u8 GHOST = 2; // its process is dead, and the device has not done it yet

// A device write under way. `value` is one more than the value written; zero means that there is none.
struct Pending {
    u8 value, term, flags;
};

enum TxnStatus : u8 { TXN_NONE, TXN_LIVE, TXN_ZOMBIE, TXN_WON, TXN_REFUSED };
enum TxnKind : u8 { TAKEOVER = 1, RESTARTED, DROP, JOIN, HANDOVER, EXCHANGE };

// A compare-and-swap of the record, on its way to etcd. A zombie's owner no longer waits for it.
struct Txn {
    u8 status, expected_revision, term, primary, in_sync, incarnations[N], kind;
};

enum WriteStage : u8 { NO_WRITE = 0, ACTIVATING = 1, SENT = 3 };
enum LocalWrite : u8 { NOT_STARTED, STARTED, DONE };

// A host's write at the primary.
struct Write {
    u8 stage, value;
    u8 targets, received, done; // replicas
    u8 local;
};

enum SettleStage : u8 { NO_SETTLE, FLUSHING, TELLING };
enum ReadStage : u8 { NO_READ, READ_BY_PRIMARY, READ_BY_SECONDARY, SUBMITTED_BY_PRIMARY, SUBMITTED_BY_SECONDARY };
enum Proposal : u8 { NO_PROPOSAL, PROPOSED, UNKNOWN };

struct Node {
    u8 up;
    // The record as this node knows it. `view` is one more than its revision; zero: not read since the start.
    u8 term, primary, in_sync, view, incarnations[N], ever_in_sync;
    // On the slice: incarnation, ACTIVE and MISSED bits, and the block as the device gives it and as it keeps it.
    u8 incarnation, open, active, active_on_disk, missed, cached, on_disk;
    Pending pending[2];
    // At the primary: replicas that are being resynced, have to be copied, or have been copied.
    u8 syncing, dirty, copied;
    u8 unreconciled;
    u8 activated; // replicas that know that the tract is active
    u8 joined;    // this replica is being resynced
    Write writes[2];
    u8 settle, settle_mask, settle_absent;
    u8 flush, flush_values, flush_mask;
    u8 read, read_value, read_proven, read_dead;
    // The proposal under way, the replicas that get no lease meanwhile, and its in_sync.
    u8 proposal, no_lease_to, proposal_kind, proposed_in_sync;
};

// A replica write between two nodes.
struct Message {
    u8 from, to, term, value;
};

struct State {
    Node nodes[N];
    Txn txns[N];
    // The record in etcd.
    u8 revision, term, primary, in_sync, incarnations[N];
    u8 ever_in_sync; // replicas that it has named at any time
    u8 held[N];  // leases that a node holds, by giver
    u8 given[N]; // leases that a node has given, by holder
    // chained[a][b]: leases of b that end when what a has given b ends.
    u8 chained[N][N];
    Message messages[MESSAGES_MAX];
    // The history: values that were read or acknowledged, those that were acknowledged, the values that each
    // precedes, and the values that a completed FLUSH has superseded for ever.
    u8 proven, acked, before[VALUES_MAX], dead;
    u8 next; // the value of the next write
    u8 power_lost, killed; // since the record named them last
    u8 kills, powers;
};
static_assert(sizeof(Pending) == 3 && sizeof(Write) == 6, "states have no padding");

// The bounds of a run, and what may happen in it.
struct Options {
    int writes = 2, terms = 4, kills = 1, powers = 1;
    double million_states = 30, seconds = 1e9, gib = 3;
    bool handover = true, settle = true, flush = true, join = true, secondary_reads = true, spurious = true;
    bool ghosts = false, split = false, out1 = false, active = false, two = false, fresh = false;
};

// The rules of README.md that a run can leave out.
struct Rules {
    bool susp = true, txn = true, txinc = true, suslease = true, jdrain = true, jrecv = true, syncact = true;
    bool jsess = true, jpend = true, syncabs = true, entry = true, union_ = true, drainp = true, missall = true;
    bool missjoin = true, readgen = true, ghost = true, boot = true, jmiss = true;
    bool exwait = true, exequal = true, whole = true;
};

// Deliberate mistakes, which the checks must find. README.md describes each.
struct Mutants {
    bool nowait = false, earlylease = false, noview = false, noterm = false, noreceived = false, nolock = false;
    bool lateactive = false, settlenoflush = false, joinnoactive = false, earlyclear = false, copyrace = false;
    bool outsider = false, opennodrain = false, unknownfails = false, localflush = false, oldinc = false;
    bool onelook = false, nopush = false, oneworld = false;
};

extern Options options;
extern Rules rules;
extern Mutants mutants;

// The first violation since it was cleared.
extern std::string violation;
// While tracing, steps describe themselves in `label`.
extern bool tracing;
extern std::string label;

using Sink = std::function<void(const State &)>;

State initial_state();
// Gives every state that may follow.
void successors(const State &state, const Sink &sink);

// checks.cpp
void violated(const std::string &message);
void check_invariants(const State &state);
void note_read(State &state, int value, u8 proven_before, u8 dead_before);
void excuse_lost_values(State &state);

// Requests that the device of the node has not done, without those of a dead process.
inline bool has_pending(const Node &node) {
    auto is_live = [](const Pending &pending) { return pending.value && !(pending.flags & GHOST); };
    return is_live(node.pending[0]) || is_live(node.pending[1]);
}

// It has restarted since the record named it, as far as it knows.
inline bool is_suspect(const State &state, int i) {
    return state.nodes[i].incarnations[i] != state.nodes[i].incarnation;
}
