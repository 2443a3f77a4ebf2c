# TLS 1.3 with a PSK: a host with the PSK connects, with both versions of identities, and a host
# without it, or with another one, does not.
#
# Parameters (from the host side): PSK, OTHER_PSK.

no_controllers() { [ -z "$(ls /sys/class/nvme)" ]; }

start_tlshd() {
    step "the daemon for handshakes starts"
    modprobe tls
    modprobe nvme-keyring || true
    printf '[debug]\nloglevel=1\ntls=1\nnl=0\n\n[authenticate]\nkeyrings=.nvme\n' >/etc/tlshd.conf
    tlshd --stderr --config /etc/tlshd.conf &
}

# insert PSK VERSION: derives the TLS PSK of the volume 'data' into the keyring.
insert() {
    nvme check-tls-key --insert --identity "$2" --hostnqn "$(cat /etc/nvme/hostnqn)" \
        --subsysnqn "$(nqn_of data)" --keydata "$1"
}

# forget: the keyring has no keys.
forget() { keyctl clear "%keyring:.nvme" || keyctl clear "$(awk '/ \.nvme/ { print "0x" $1 }' /proc/keys)"; }

# expect_no_connect HOW [OPTION of nvme connect]...
expect_no_connect() {
    local how=$1
    shift
    ! nvme connect --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$TARGET_PORT" \
        --nqn "$(nqn_of data)" --nr-io-queues 2 "$@" || fail "connected $how"
    wait_for "the end of the controller" 20 no_controllers
}

# expect_connect: both queues use TLS and do I/O.
expect_connect() {
    connect data --nr-io-queues 2 --tls
    verify "$disk" 4k 1M
    verify "$disk" 128k 8M
    cat "/sys/class/nvme/$controller/tls_key" || true
}

version_1() {
    step "an identity of version 1"
    expect_no_connect "without TLS"
    insert "$OTHER_PSK" 1
    expect_no_connect "to a node without its PSK" --tls
    mark added
    expect_no_connect "with another PSK" --tls
    forget
    insert "$PSK" 1
    expect_connect
    disconnect data
}

version_0() {
    step "an identity of version 0"
    forget
    insert "$OTHER_PSK" 0
    expect_no_connect "with another key" --tls
    insert "$PSK" 0
    expect_connect
    mark removed
    wait_for "the end of the connection" 20 is_cut
    nvme disconnect-all
}

is_cut() { ! is_live "$controller"; }

start_tlshd
version_1
version_0
expect_no_io_errors
