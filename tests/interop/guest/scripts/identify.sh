# Discovery, a controller with several queues and digests, and every page that nvme-cli requests.

dir=/tmp/identify
mkdir -p "$dir"

# page NAME COMMAND...: the JSON document that nvme-cli prints.
page() {
    local name=$1
    shift
    nvme "$@" --output-format json >"$dir/$name" || { cat "$dir/$name"; fail "nvme $*"; }
    jq . "$dir/$name" >/dev/null || { cat "$dir/$name"; fail "nvme $*: not JSON"; }
}

discover() {
    step "discover"
    page discovery discover --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$TARGET_PORT"
    expect_json "$dir/discovery" '[.records[].subnqn] | contains(["'"$(nqn_of data)"'"])'
    expect_json "$dir/discovery" 'all(.records[]; .trtype == "tcp")'
}

# The discovery log is correct: every subsystem in it accepts a connection.
connect_all() {
    step "connect all that is discovered"
    nvme connect-all --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$TARGET_PORT"
    local nqn
    for nqn in "$(nqn_of data)" "$(nqn_of files)"; do
        grep -qx "$nqn" /sys/class/nvme/nvme*/subsysnqn || fail "$nqn is not connected"
    done
    nvme disconnect-all
}

# Admin queue and two I/O queues; then more by the kernel's kinds of queue: default, read, poll.
connect_with_queues() {
    step "several queues, digests"
    connect data --nr-io-queues 2
    expect_equal "queue count" "$(cat "/sys/class/nvme/$controller/queue_count")" 3
    disconnect data
    connect data --nr-io-queues 2 --nr-write-queues 2 --nr-poll-queues 1 --hdr-digest --data-digest
    expect_equal "queue count" "$(cat "/sys/class/nvme/$controller/queue_count")" 6
}

identify() {
    step "identify"
    page id-ctrl id-ctrl "/dev/$controller"
    expect_json "$dir/id-ctrl" '.subnqn == "'"$(nqn_of data)"'"'
    expect_json "$dir/id-ctrl" '(.sn | length) > 0 and (.mn | length) > 0 and (.fr | length) > 0'
    expect_json "$dir/id-ctrl" '.ver >= 66304 and .cntlid >= 1 and .nn >= 1'
    # I/O controller, keyed or plain SGLs, and a command capsule with at least the command in it.
    expect_json "$dir/id-ctrl" '(.cntrltype == 1 or .cntrltype == 0) and .sgls != 0 and .ioccsz >= 4 and .iorcsz == 1'
    page id-ns id-ns "$disk"
    expect_equal "namespace size" \
        "$(jq '.nsze * pow(2; .lbafs[.flbas % 16].ds)' "$dir/id-ns")" "$(blockdev --getsize64 "$disk")"
    expect_json "$dir/id-ns" '.ncap <= .nsze and .nuse <= .ncap and .nsze > 0'
    page list-ns list-ns "/dev/$controller"
    expect_json "$dir/list-ns" '[.nsid_list[].nsid] == [1]'
    page ns-descs ns-descs "$disk"
    nvme ns-descs "$disk"
    grep -q . "/sys/block/${disk#/dev/}/uuid" || fail "the namespace has no UUID"
    page list list
    expect_json "$dir/list" '[.. | strings] | any(. == "'"${disk#/dev/}"'" or . == "'"$disk"'")'
    page list-subsys list-subsys
    expect_json "$dir/list-subsys" '[.. | .State? // empty] | index("live") != null'
}

log_pages() {
    step "log pages"
    page smart-log smart-log "/dev/$controller"
    expect_json "$dir/smart-log" '.critical_warning == 0 or .critical_warning.value == 0'
    page error-log error-log "/dev/$controller"
    page fw-log fw-log "/dev/$controller"
    page effects-log effects-log "/dev/$controller"
    page ana-log ana-log "/dev/$controller"
    expect_json "$dir/ana-log" '[."ANA DESC LIST "[] | .state, .nnsids, .NSIDS[].nsid] == ["optimized", 1, 1]'
    page ana-groups ana-log "/dev/$controller" --groups
    expect_json "$dir/ana-groups" '[."ANA DESC LIST "[] | .state, .nnsids, .NSIDS[].nsid] == ["optimized", 0]'
    grep -iq optimized "/sys/class/nvme/$controller"/nvme*n1/ana_state || fail "the path is not ANA optimized"
    page changed-ns changed-ns-list-log "/dev/$controller"
}

features() {
    step "features"
    local feature
    # Arbitration, power, temperature, error recovery, write cache, queues, atomicity, events, keep
    # alive.
    for feature in ${FEATURES:-0x1 0x2 0x4 0x5 0x6 0x7 0xa 0xb 0xf}; do
        nvme get-feature "/dev/$controller" --feature-id "$feature" --human-readable ||
            fail "feature $feature"
    done
    expect_equal "keep alive" "$(nvme get-feature "/dev/$controller" --feature-id 0xf | sed 's/.*://')" 0x00001388
    nvme show-regs "/dev/$controller" --human-readable
}

# The kernel logs the errors that it finds in a controller.
no_complaints() {
    step "the kernel's log"
    ! dmesg | grep -E 'nvme' | grep -iE 'error|fail|timeout|invalid|unrecognized|duplicate|bogus|warn' ||
        fail "the kernel complains about the controller"
}

discover
connect_all
connect_with_queues
identify
log_pages
features
no_complaints
disconnect data
