# A node whose kernel handles the records of TLS: the guest runs both the node and the host.
#
# Parameters (from the host side): NODE_PORT, which sends the program; PSK.
# The host's sockets are always in the kernel: with two I/O queues, three of them.

state=/tmp/state
host_nqn=$(cat /etc/nvme/hostnqn)

# The sockets whose records the kernel decrypts.
tls_sockets() { awk '$1 == "TlsCurrRxSw" { print $2 }' /proc/net/tls_stat; }
tls_errors() { awk '$1 == "TlsDecryptError" { print $2 }' /proc/net/tls_stat; }
has_tls_sockets() { [ "$(tls_sockets)" = "$1" ]; }

# start_node OPTION...
start_node() {
    /tmp/nearflash serve --device r=ram:128MiB --volume data=64MiB@r --volume files=32MiB@r --cores 0 \
        --nvme-tcp "$TARGET_ADDRESS:$TARGET_PORT,tls=required" --direct 127.0.0.1:4421,tls=required \
        --data-dir "$state" "$@" >/tmp/ready 2>/tmp/log &
    node=$!
    wait_for "the ready line" 60 grep -q '"event":"ready"' /tmp/ready
}

stop_node() {
    kill -TERM "$node"
    wait "$node" || fail "the node did not drain"
    cat /tmp/log
    rm -r "$state" /tmp/ready
}

# admit PSK: the node and the host have this key.
admit() {
    printf '%s\n' "$1" >/tmp/psk
    chmod 600 /tmp/psk
    /tmp/nearflash host add "$host_nqn" --psk-file /tmp/psk --psk-derivation legacy --data-dir "$state"
    forget
    insert "$1" 1
}

# carry SOCKETS: three connections carry data in both directions, and so many sockets are in the kernel.
carry() {
    connect data --nr-io-queues 2 --tls
    wait_for "$1 sockets of TLS in the kernel" 20 has_tls_sockets "$1"
    verify "$disk" 512 512K
    verify "$disk" 4k 4M
    verify "$disk" 1M 32M --iodepth=4
    expect_equal "records that could not be decrypted" "$(tls_errors)" 0
}

in_kernel() {
    step "a host, TLS_AES_128_GCM_SHA256"
    start_node
    grep -q 'in_kernel=true' /tmp/log || fail "the log does not say that the records are in the kernel"
    admit "$PSK"
    carry 6
    disconnect data
    wait_for "the end of the sockets" 20 has_tls_sockets 0
}

in_user_space() {
    step "ktls=off"
    start_node --ktls off
    admit "$PSK"
    carry 3
    disconnect data
    stop_node
}

# The PSK binds connections whose records are in the kernel, too.
cut_off() {
    step "a host that is removed loses its connections"
    connect data --nr-io-queues 2 --tls
    /tmp/nearflash host remove "$host_nqn" --data-dir "$state"
    wait_for "the end of the connection" 20 is_cut
    nvme disconnect-all
    wait_for "the end of the sockets" 20 has_tls_sockets 0
}

# load SOCKETS URL: the program reads and writes. Its own ends are in user space.
load() {
    local bench
    /tmp/nearflash bench "$2" --rw randrw --bs 64k --iodepth 4 --runtime 8s --time-based &
    bench=$!
    wait_for "$1 sockets of TLS in the kernel" 60 has_tls_sockets "$1"
    wait "$bench" || fail "the client failed"
    wait_for "the end of the sockets" 20 has_tls_sockets 0
}

# The daemon of Debian 13 has no handshake with a PSK for SHA-384.
of_sha384() {
    step "the program as a host, TLS_AES_256_GCM_SHA384"
    nvme gen-tls-key --hmac 2 >/tmp/psk_384
    chmod 600 /tmp/psk_384
    /tmp/nearflash host add nqn.2026-11.test:app --psk-file /tmp/psk_384 --data-dir "$state"
    load 2 "nvme-tcp://$TARGET_ADDRESS:$TARGET_PORT/data?host-nqn=nqn.2026-11.test:app&psk-file=/tmp/psk_384"
}

direct() {
    step "a direct client"
    /tmp/nearflash credential create app --secret-file /tmp/app.secret --data-dir "$state"
    /tmp/nearflash grant add app files --rights rw --data-dir "$state"
    load 1 "direct+tls://127.0.0.1:4421/files?key=app&secret-file=/tmp/app.secret"
}

# The end of a node reaches a host through the kernel's records, too.
ended() {
    step "the node ends while a host is connected"
    admit "$PSK"
    connect data --nr-io-queues 2 --tls
    stop_node
    wait_for "the end of the connection" 20 is_cut
    nvme disconnect-all
    wait_for "the end of the sockets" 20 has_tls_sockets 0
}

is_cut() { ! is_live "$controller"; }

modprobe tls
nc 10.0.2.2 "$NODE_PORT" </dev/null >/tmp/nearflash
chmod +x /tmp/nearflash
start_tlshd
in_kernel
cut_off
of_sha384
direct
ended
in_user_space
expect_no_io_errors
