# DH-HMAC-CHAP: a host with the key connects, one without it does not, and the controller authenticates too.
#
# Parameters (from the host side): KEY, NODE_KEY, NEW_KEY, WRONG_KEY.

try_connect() {
    nvme connect --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$TARGET_PORT" \
        --nqn "$(nqn_of data)" --nr-io-queues 2 "$@"
}

no_controllers() { [ -z "$(ls /sys/class/nvme)" ]; }

# expect_no_connect HOW [OPTION of nvme connect]...
expect_no_connect() {
    local how=$1
    shift
    ! try_connect "$@" || fail "connected $how"
    wait_for "the end of the controller" 20 no_controllers
}

# expect_connect [OPTION of nvme connect]...: both queues authenticate and do I/O.
expect_connect() {
    connect data --nr-io-queues 2 "$@"
    verify "$disk" 4k 1M
}

# The number of authentications of admin queues that the kernel has reported.
authentications() { dmesg | grep -c 'qid 0: authenticated with' || true; }

has_authenticated() { [ "$(authentications)" -gt "$1" ]; }

one_way() {
    step "the host authenticates"
    mark one_way
    expect_no_connect "without a key"
    expect_connect --dhchap-secret "$KEY"
    disconnect data
    expect_no_connect "with a wrong key" --dhchap-secret "$WRONG_KEY"
    expect_no_connect "to a node without a key" --dhchap-secret "$KEY" --dhchap-ctrl-secret "$NODE_KEY"
}

# The host authenticates again while it is connected, on every queue.
again() {
    step "a host that is connected authenticates again"
    local before
    before=$(authentications)
    printf '%s' "$KEY" >"/sys/class/nvme/$controller/dhchap_secret"
    wait_for "another authentication" 20 has_authenticated "$before"
    verify "$disk" 4k 1M
    is_live "$controller" || fail "the controller is $(controller_state "$controller")"
}

two_way() {
    step "the host and the controller authenticate"
    mark two_way
    expect_connect --dhchap-secret "$KEY" --dhchap-ctrl-secret "$NODE_KEY"
    again
    disconnect data
    expect_no_connect "to a node with a wrong key" --dhchap-secret "$KEY" --dhchap-ctrl-secret "$WRONG_KEY"
}

# hash_and_group HASH GROUP
hash_and_group() {
    step "$1 with $2"
    mark "$1"
    expect_connect --dhchap-secret "$KEY" --dhchap-ctrl-secret "$NODE_KEY"
    disconnect data
    dmesg | grep "qid 0: authenticated with hash hmac($1) dhgroup $2" || fail "not with $1 and $2"
}

# The second new key is WRONG_KEY.
rotated() {
    step "the key is replaced, and the old one stays valid for an hour"
    expect_connect --dhchap-secret "$KEY"
    mark rotated
    again
    disconnect data
    expect_connect --dhchap-secret "$KEY"
    disconnect data
    expect_connect --dhchap-secret "$NEW_KEY"
    step "the key is replaced, and the old ones end"
    mark replaced
    verify "$disk" 4k 1M
    is_live "$controller" || fail "the controller is $(controller_state "$controller")"
    disconnect data
    expect_no_connect "with the first key" --dhchap-secret "$KEY"
    expect_no_connect "with the second key" --dhchap-secret "$NEW_KEY"
    expect_connect --dhchap-secret "$WRONG_KEY"
    disconnect data
}

removed() {
    step "keys are removed while the host is connected"
    expect_connect --dhchap-secret "$WRONG_KEY"
    mark removed
    nvme disconnect-all
    expect_no_connect "without a key, after its key was removed"
}

one_way
two_way
hash_and_group sha256 null
hash_and_group sha384 ffdhe2048
hash_and_group sha512 ffdhe3072
rotated
removed
