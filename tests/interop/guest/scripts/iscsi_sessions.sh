# A session over time: discovery, login, idle time, a new size, logout and another login.

is_size() {
    echo 1 >"/sys/block/${disk#/dev/}/device/rescan"
    [ "$(blockdev --getsize64 "$disk")" -eq "$1" ]
}

discovery() {
    step "discovery shows each target, and two sessions at a time are served"
    expect_equal "targets" "$(discover | tr '\n' ' ')" "$(iqn_of data) $(iqn_of files) "
    login files
    expect_equal "block size of files" "$(blockdev --getss "$disk")" 4096
    verify "$disk" 4k 1M
    # Pings of an idle connection, so that few seconds are enough to see some.
    set_option data 'node.conn[0].timeo.noop_out_interval' 1
    login data
    expect_equal "block size of data" "$(blockdev --getss "$disk")" 512
    verify "$disk" 512 256k
    logout files
}

# The initiator pings an idle target; the target must not close the session.
idle() {
    step "idle across pings"
    fill_range "$disk" 0 65536
    before=$(checksum_range "$disk" 0 65536)
    sleep 3
    expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    is_logged_in "$session" || fail "$session is no longer logged in"
    ! dmesg | grep 'detected conn error' || fail "a connection broke"
}

# A unit attention reports the change, and the initiator leaves the reaction to the administrator.
resize() {
    step "online resize"
    local old
    old=$(blockdev --getsize64 "$disk")
    mark grow
    wait_for "the grown size of $disk" 10 is_size $((old + ${GROWN_BY:-1073741824}))
    fill_range "$disk" $((old - 65536)) 131072
    checksum_range "$disk" $((old - 65536)) 131072
    [ "${EXACT:-yes}" = no ] || dmesg | grep 'Capacity data has changed' || fail "nobody told of the new size"
}

# The unit and the target are reset with writes in flight, which are sent again.
reset() {
    step "reset of the logical unit with I/O in flight"
    verify "$disk" 16k 8M --offset=1M --rate=4m &
    sleep 1
    sg_reset --device "$disk"
    sleep 0.5
    sg_reset --target "$disk"
    wait $! || fail "verify across resets"
}

come_back() {
    step "logout and login again"
    local count
    for count in 1 2 3; do
        logout data
        [ ! -e "$disk" ] || fail "$disk is still there"
        login data
        expect_equal "checksum" "$(checksum_range "$disk" 0 65536)" "$before"
    done
    logout data
}

discovery
idle
resize
reset
come_back
expect_no_io_errors
