# The Linux host with TLS: the daemon for handshakes, and keys.

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
