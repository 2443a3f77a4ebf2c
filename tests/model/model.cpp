// Explicit-state model of the mirror protocol: one mirror of two or three replicas, one tract, one block.
// README.md describes the protocol, its rules, and the arguments.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "search.h"

Options options;
Rules rules;
Mutants mutants;
std::string violation;
bool tracing = false;
std::string label;

State initial_state() {
    State state;
    memset(&state, 0, sizeof state);
    state.term = 1;
    state.in_sync = options.out1 || options.fresh ? ALL & ~bit(1) : ALL;
    state.ever_in_sync = options.fresh ? state.in_sync : ALL;
    for (int i = 0; i < N; i++) {
        Node &node = state.nodes[i];
        node.up = node.term = node.view = 1;
        node.in_sync = state.in_sync;
        node.ever_in_sync = state.ever_in_sync;
        if (options.active && has(state.in_sync, i))
            node.active = node.active_on_disk = 1;
    }
    if (options.fresh)
        state.nodes[1].cached = state.nodes[1].on_disk = VALUES_MAX - 1;
    state.nodes[0].open = 1;
    if (options.active)
        state.nodes[0].activated = state.in_sync;
    state.proven = state.acked = 1;
    state.next = 1;
    return state;
}

// Breadth first: the trace of the first violation is a shortest one.
class Search {
  public:
    explicit Search(size_t states_max) : cap(states_max), seen(states_max) {}
    int run();

  private:
    void find(const State &state, uint32_t from);
    void expand(const State &state);
    void print_trace();
    bool is_over_bounds() const;

    size_t cap;
    Seen seen;
    Queue queue;
    // By number of the state.
    std::vector<uint32_t> parents, prints;
    uint32_t current = 0;
    bool is_bounded = false;
    State bad;
    std::string found;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

void Search::find(const State &state, uint32_t from) {
    uint64_t print = fingerprint(state);
    if (!seen.insert(print))
        return;
    queue.push(state);
    parents.push_back(from);
    prints.push_back(static_cast<uint32_t>(print >> 32));
}

void Search::expand(const State &state) {
    violation.clear();
    successors(state, [&](const State &next) {
        if (!found.empty())
            return;
        check_invariants(next);
        if (!violation.empty()) {
            found = violation;
            bad = next;
        } else if (parents.size() < cap) {
            find(next, current);
        } else {
            is_bounded = true;
        }
    });
}

bool Search::is_over_bounds() const {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    size_t bytes = queue.len() + parents.size() * 2 * sizeof(uint32_t);
    return elapsed.count() > options.seconds || static_cast<double>(bytes) > options.gib * (1 << 30);
}

int Search::run() {
    find(initial_state(), 0);
    int depth = 0;
    uint32_t level_end = 1;
    for (; current < parents.size() && found.empty() && !is_bounded; current++) {
        if (current == level_end) {
            depth++;
            level_end = static_cast<uint32_t>(parents.size());
        }
        expand(queue.pop());
        if (current % 4096 == 0 && is_over_bounds())
            is_bounded = true;
    }
    const char *result = "no violation, exhausted";
    if (!found.empty())
        result = "VIOLATION";
    else if (is_bounded)
        result = "no violation, bound reached";
    printf("states %zu, expanded %u, depth %d: %s\n", parents.size(), current, depth, result);
    if (found.empty())
        return 0;
    current--;
    print_trace();
    return 1;
}

// Goes the way to the bad state once more, and describes its steps.
void Search::print_trace() {
    printf("%s\n", found.c_str());
    std::vector<uint32_t> path;
    for (uint32_t at = current; at; at = parents[at])
        path.push_back(at);
    std::reverse(path.begin(), path.end());
    State state = initial_state();
    tracing = true;
    for (size_t step = 0; step <= path.size(); step++) {
        bool is_last = step == path.size();
        std::string text;
        State to = state;
        successors(state, [&](const State &next) {
            bool is_meant = is_last ? !memcmp(&next, &bad, sizeof next)
                                    : static_cast<uint32_t>(fingerprint(next) >> 32) == prints[path[step]];
            if (is_meant && text.empty()) {
                text = label;
                to = next;
            }
        });
        state = to;
        printf("  %2zu %s\n", step + 1, text.c_str());
    }
}

// One random walk. Returns whether it has found a violation.
static bool walk(uint64_t seed, uint64_t &steps) {
    constexpr int STEPS_MAX = 120;
    std::mt19937_64 random(seed);
    State state = initial_state();
    for (int step = 1; step <= STEPS_MAX; step++) {
        std::vector<State> nexts;
        std::vector<std::string> violations, labels;
        violation.clear();
        successors(state, [&](const State &next) {
            nexts.push_back(next);
            violations.push_back(violation);
            labels.push_back(label);
            violation.clear();
        });
        if (nexts.empty())
            return false;
        size_t chosen = random() % nexts.size();
        state = nexts[chosen];
        violation = violations[chosen];
        steps++;
        if (tracing)
            printf("  %3d %s\n", step, labels[chosen].c_str());
        check_invariants(state);
        if (!violation.empty())
            return true;
    }
    return false;
}

static int walks(uint64_t count, uint64_t seed) {
    std::mt19937_64 seeds(seed);
    uint64_t steps = 0;
    for (uint64_t number = 1; number <= count; number++) {
        uint64_t one = seeds();
        if (!walk(one, steps))
            continue;
        printf("walk %lu: VIOLATION\n%s\n", number, violation.c_str());
        tracing = true;
        walk(one, steps);
        return 1;
    }
    printf("walks %lu, steps %lu: no violation\n", count, steps);
    return 0;
}

struct Switch {
    const char *name;
    bool *value;
};

static const Switch RULES[] = {
    {"susp", &rules.susp},         {"txn", &rules.txn},         {"txinc", &rules.txinc},
    {"suslease", &rules.suslease}, {"jdrain", &rules.jdrain},   {"jrecv", &rules.jrecv},
    {"syncact", &rules.syncact},   {"jsess", &rules.jsess},     {"jpend", &rules.jpend},
    {"syncabs", &rules.syncabs},   {"entry", &rules.entry},     {"union", &rules.union_},
    {"drainp", &rules.drainp},     {"missall", &rules.missall}, {"missjoin", &rules.missjoin},
    {"readgen", &rules.readgen},   {"ghost", &rules.ghost},     {"boot", &rules.boot},
    {"jmiss", &rules.jmiss},       {"exwait", &rules.exwait},   {"exequal", &rules.exequal},
    {"whole", &rules.whole},
};

static const Switch MUTANTS[] = {
    {"nowait", &mutants.nowait},           {"earlylease", &mutants.earlylease},
    {"noview", &mutants.noview},           {"noterm", &mutants.noterm},
    {"noreceived", &mutants.noreceived},   {"nolock", &mutants.nolock},
    {"lateactive", &mutants.lateactive},   {"settlenoflush", &mutants.settlenoflush},
    {"earlyclear", &mutants.earlyclear},   {"copyrace", &mutants.copyrace},
    {"outsider", &mutants.outsider},       {"opennodrain", &mutants.opennodrain},
    {"localflush", &mutants.localflush},   {"unknownfails", &mutants.unknownfails},
    {"oldinc", &mutants.oldinc},           {"onelook", &mutants.onelook},
    {"nopush", &mutants.nopush},           {"oneworld", &mutants.oneworld},
    {"joinnoactive", &mutants.joinnoactive},
};

static const Switch PARTS[] = {
    {"handover", &options.handover}, {"settle", &options.settle},         {"flush", &options.flush},
    {"join", &options.join},         {"reads", &options.secondary_reads}, {"drops", &options.spurious},
};

static const Switch FLAGS[] = {
    {"-ghost", &options.ghosts}, {"-split", &options.split}, {"-out1", &options.out1}, {"-act", &options.active},
    {"-two", &options.two},      {"-new", &options.fresh},
};

// Sets the switches named in a list with commas.
template <size_t COUNT> static bool set_all(const Switch (&switches)[COUNT], const std::string &names, bool value) {
    std::stringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
        auto has_name = [&](const Switch &it) { return name == it.name; };
        auto found = std::find_if(std::begin(switches), std::end(switches), has_name);
        if (found == std::end(switches)) {
            fprintf(stderr, "'%s' is not known: see README.md\n", name.c_str());
            return false;
        }
        *found->value = value;
    }
    return true;
}

struct Walks {
    uint64_t count = 0, seed = 1;
};

static bool parse(const std::string &name, const std::string &value, Walks &asked) {
    const char *text = value.c_str();
    if (name == "-without")
        return set_all(RULES, value, false);
    if (name == "-mutant")
        return set_all(MUTANTS, value, true);
    if (name == "-no")
        return set_all(PARTS, value, false);
    if (name == "-W")
        options.writes = std::min(atoi(text), VALUES_MAX - 1);
    else if (name == "-T")
        options.terms = atoi(text);
    else if (name == "-C")
        options.kills = atoi(text);
    else if (name == "-P")
        options.powers = atoi(text);
    else if (name == "-M")
        options.million_states = std::min(atof(text), 4000.0);
    else if (name == "-s")
        options.seconds = atof(text);
    else if (name == "-gib")
        options.gib = atof(text);
    else if (name == "-walks")
        asked.count = strtoull(text, nullptr, 10);
    else if (name == "-seed")
        asked.seed = strtoull(text, nullptr, 10);
    else
        return set_all(FLAGS, name, true);
    return true;
}

// Exit status: 0 without a violation, 1 with one, 2 when the arguments are wrong.
int main(int count, char **arguments) {
    Walks asked;
    for (int k = 1; k < count; k++) {
        std::string argument = arguments[k];
        size_t equals = argument.find('=');
        std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
        if (!parse(argument.substr(0, equals), value, asked))
            return 2;
    }
    if (asked.count)
        return walks(asked.count, asked.seed);
    return Search(static_cast<size_t>(options.million_states * 1e6)).run();
}
