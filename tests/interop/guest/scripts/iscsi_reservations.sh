# Two initiators with different names, one unit, and the right to write to it.

# second_initiator: an interface whose sessions have another initiator's name.
second_initiator() {
    local option
    iscsiadm --mode iface --interface second --op new
    for option in transport_name=tcp initiatorname=iqn.2026-11.io.nearflash:guest-2; do
        iscsiadm --mode iface --interface second --op update --name "iface.${option%%=*}" --value "${option#*=}"
    done
}

# persist DISK OPTION...: a persistent reservation command.
persist() {
    local disk=$1
    shift
    sg_persist --no-inquiry "$@" "$disk"
}

writes() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct conv=fsync status=none; }
reads() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct status=none; }

expect_may_write() { writes "$1" || fail "$1 may not write $2"; }
expect_may_not_write() { ! writes "$1" || fail "$1 may write $2"; }

log_in_twice() {
    step "two initiators at one unit"
    discover --interface default --interface second
    login data --interface default
    first=$disk
    login data --interface second
    second=$disk
    [ "$first" != "$second" ] || fail "one disk for both"
    expect_may_write "$first" "without a reservation"
    expect_may_write "$second" "without a reservation"
}

write_exclusive() {
    step "write exclusive: one writes, both read"
    persist "$first" --out --register --param-sark=0x1111
    persist "$second" --out --register --param-sark=0x2222
    persist "$first" --out --reserve --param-rk=0x1111 --prout-type=1
    persist "$second" --in --read-reservation | grep -q 'Key=0x1111' || fail "no reservation is reported"
    expect_may_write "$first" "under its own reservation"
    expect_may_not_write "$second" "under the first's reservation"
    reads "$second" || fail "a reader is shut out by write exclusive"
    ! persist "$second" --out --reserve --param-rk=0x2222 --prout-type=1 || fail "reserved twice"
}

# The new holder's reservation is effective once the command has completed.
preemption() {
    step "preempt and abort in the middle of the other's writes"
    local writer
    (while writes "$first"; do :; done) &
    writer=$!
    sleep 1
    persist "$second" --out --preempt-abort --param-rk=0x2222 --param-sark=0x1111 --prout-type=1
    wait $writer
    expect_may_not_write "$first" "after it was preempted"
    expect_may_write "$second" "under its own reservation"
    persist "$second" --in --read-keys | grep -q 0x2222 || fail "the new holder's key is gone"
    ! persist "$second" --in --read-keys | grep -q 0x1111 || fail "the preempted key is still there"
}

# A registration with APTPL persists over a restart of the node.
persistence() {
    step "a reservation that lasts"
    persist "$second" --out --register-ignore --param-sark=0x2222 --param-aptpl
    mark restart
    wait_for "the sessions" 60 sessions_are_back
    expect_may_not_write "$first" "after a restart"
    expect_may_write "$second" "after a restart"
    persist "$second" --out --clear --param-rk=0x2222
    expect_may_write "$first" "when nothing is reserved"
}

sessions_are_back() {
    local name
    for name in $(sessions); do is_logged_in "$name"; done
    reads "$first" && reads "$second"
}

second_initiator
log_in_twice
write_exclusive
preemption
persistence
logout data
