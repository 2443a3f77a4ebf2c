# A connection over time: idle time, a new size, resets, disconnect and another connect.

is_size() { [ "$(blockdev --getsize64 "$disk")" -eq "$1" ]; }

# Three keep-alive periods pass without other commands; the target must not end the association.
idle() {
    step "idle across keep-alives"
    connect data --nr-io-queues 2 --keep-alive-tmo 2
    fill_range "$disk" 0 65536
    before=$(checksum_range "$disk" 0 65536)
    sleep 7
    expect_equal "controller state" "$(controller_state "$controller")" live
    expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    expect_equal "reconnects" "$(reconnects)" 0
}

# An asynchronous event notifies the host, which rescans by itself.
resize() {
    step "online resize"
    local old
    old=$(blockdev --getsize64 "$disk")
    mark grow
    wait_for "the grown size of $disk" 10 is_size $((old + ${GROWN_BY:-1073741824}))
    fill_range "$disk" $((old - 65536)) 131072
    checksum_range "$disk" $((old - 65536)) 131072
    expect_equal "reconnects" "$(reconnects)" 0
}

reset() {
    step "reset, idle and with I/O in flight"
    local count
    nvme reset "/dev/$controller"
    wait_for "the controller after a reset" 20 is_live "$controller"
    expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    verify "$disk" 16k 8M --offset=1M --rate=4m &
    for count in 1 2 3; do
        sleep 0.5
        nvme reset "/dev/$controller"
    done
    wait $! || fail "verify across resets"
    is_live "$controller" || fail "the controller is $(controller_state "$controller")"
}

reconnect() {
    step "disconnect and connect again"
    local count
    for count in 1 2 3; do
        disconnect data
        [ ! -e "$disk" ] || fail "$disk is still there"
        connect data --nr-io-queues 2 --data-digest
        expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    done
}

# Two subsystems of one node at a time, and one of them twice.
several_controllers() {
    step "several controllers"
    local other
    connect files
    verify "$disk" 4k 1M
    other=$controller
    connect data --duplicate-connect
    verify "$disk" 4k 1M --offset=1M
    expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    is_live "$other" || fail "$other is $(controller_state "$other")"
    disconnect files
    disconnect data
}

idle
resize
reset
reconnect
several_controllers
expect_no_io_errors
