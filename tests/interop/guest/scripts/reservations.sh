# Two hosts with one volume: their reservations decide on the right to read and write it.
#
# Each host has a controller and, without multipath, its own disk: with multipath, the kernel would
# take both for paths of one host.

read_block() { nvme read "$1" --start-block 8 --block-count 0 --data-size 512 --data /tmp/read; }

write_block() { nvme write "$1" --start-block 8 --block-count 0 --data-size 512 --data /tmp/block; }

register() { nvme resv-register "$1" --namespace-id 1 --nrkey "$2" --rrega 0; }

acquire() { nvme resv-acquire "$1" --namespace-id 1 --crkey "$2" --rtype "$3" --racqa 0; }

# expect_report DISK JQ_CONDITION
expect_report() {
    nvme resv-report "$1" --namespace-id 1 --eds --output-format json >/tmp/report
    expect_json /tmp/report "$2"
}

# The oldest notification of a host: its type, and the number of further ones.
notification() {
    nvme get-log "/dev/$1" --log-id 0x80 --log-len 64 --raw-binary |
        od -A n -t u1 -j 8 -N 2 | tr -s ' ' | sed 's/^ //'
}

connect_as() {
    local host=$1
    connect data --nr-io-queues 1 --hostid "$(printf '%08x-0000-4000-8000-000000000000' "$host")" \
        --hostnqn "nqn.2014-08.org.nvmexpress:uuid:$(printf '%08x-0000-4000-8000-000000000000' "$host")"
}

two_hosts() {
    step "two hosts"
    modprobe -r nvme-tcp nvme-fabrics nvme-core
    modprobe nvme-core multipath=N
    modprobe nvme-tcp
    connect_as 1
    first=$disk first_controller=$controller
    connect_as 2
    second=$disk second_controller=$controller
    [ "$first" != "$second" ] || fail "both hosts have $first"
    head -c 512 /dev/urandom >/tmp/block
    nvme id-ctrl "/dev/$controller" --output-format json >/tmp/controller
    expect_json /tmp/controller '(.oncs / 32 | floor) % 2 == 1'
    nvme id-ns "$first" --output-format json >/tmp/namespace
    expect_json /tmp/namespace '.rescap == 255'
}

registrations() {
    step "registrations"
    expect_refused "Reservation Conflict" acquire "$first" 0xa 1
    register "$first" 0xa
    register "$first" 0xa
    expect_refused "Reservation Conflict" register "$first" 0xb
    register "$second" 0xb
    nvme resv-register "$second" --namespace-id 1 --crkey 0xb --nrkey 0xc --rrega 2
    nvme resv-register "$second" --namespace-id 1 --nrkey 0xb --rrega 2 --iekey
    expect_report "$first" '.regctl == 2 and .rtype == 0'
    # In the structure that has 64 bits for a host's identifier.
    expect_refused "Host Identifier Inconsistent" \
        nvme io-passthru "$first" --opcode 0x0e --namespace-id 1 --cdw10 15 --data-len 64 --read
}

write_exclusive() {
    step "write exclusive"
    acquire "$first" 0xa 1
    write_block "$first"
    read_block "$second"
    cmp /tmp/block /tmp/read
    expect_refused "Reservation Conflict" write_block "$second"
    expect_refused "Reservation Conflict" nvme flush "$second" --namespace-id 1
    expect_refused "Reservation Conflict" nvme write-zeroes "$second" --start-block 8 --block-count 0
    expect_refused "Reservation Conflict" acquire "$second" 0xb 1
    ! dd if=/tmp/block of="$second" bs=512 oflag=direct status=none || fail "a write got through"
    read_block "$first"
    cmp /tmp/block /tmp/read
}

preemption() {
    step "preemption"
    nvme resv-acquire "$second" --namespace-id 1 --crkey 0xb --prkey 0xa --rtype 2 --racqa 2
    expect_report "$second" '.regctl == 1 and .rtype == 2'
    expect_refused "Reservation Conflict" read_block "$first"
    expect_refused "Reservation Conflict" write_block "$first"
    write_block "$second"
    expect_equal "what the first host is told" "$(notification "$first_controller")" "1 0"
    expect_equal "what it is told then" "$(notification "$first_controller")" "0 0"
    expect_equal "what the second host is told" "$(notification "$second_controller")" "0 0"
}

all_registrants() {
    step "a reservation of all registrants"
    nvme resv-release "$second" --namespace-id 1 --crkey 0xb --rtype 2 --rrela 0
    register "$first" 0xa
    acquire "$first" 0xa 6
    write_block "$second"
    nvme resv-release "$second" --namespace-id 1 --crkey 0xb --rtype 6 --rrela 0
    expect_equal "what the first host is told" "$(notification "$first_controller")" "2 0"
}

crash() {
    step "a reservation that outlives the node"
    nvme resv-register "$second" --namespace-id 1 --crkey 0xb --nrkey 0xd --rrega 2 --cptpl 3
    acquire "$second" 0xd 2
    nvme get-feature "$second" --feature-id 0x83 --namespace-id 1 >/tmp/feature
    grep -i 'value:0x0*1$' /tmp/feature || fail "$(cat /tmp/feature)"
    mark restart
    wait_for "the first host" 60 is_live "$first_controller"
    wait_for "the second host" 60 is_live "$second_controller"
    expect_report "$second" '.regctl == 2 and .rtype == 2 and .ptpls == 1'
    expect_refused "Reservation Conflict" read_block "$first"
    read_block "$second"
}

clearing() {
    step "clearing"
    nvme resv-release "$first" --namespace-id 1 --crkey 0xa --rrela 1
    expect_report "$first" '.regctl == 0 and .rtype == 0'
    expect_equal "what the second host is told" "$(notification "$second_controller")" "3 0"
    write_block "$first"
    write_block "$second"
}

[ "${RESERVATIONS:-yes}" = no ] && exit
two_hosts
registrations
write_exclusive
preemption
all_registrants
crash
clearing
disconnect data
