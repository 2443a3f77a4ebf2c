# The target restarts in the middle of writes: no acknowledged write is lost.
#
# fio writes a raw volume and records every block; at the same time, a file system is filled. The
# kernel's host keeps the commands in flight, reconnects by itself and sends them again. The blocks
# hold valid data of an earlier run before, so that a write that was acknowledged and then lost
# shows as that data.

written_sectors() { awk "{ print \$7 }" "/sys/block/${1#/dev/}/stat"; }

has_written() { [ "$(written_sectors "$1")" -gt "$2" ]; }

have_reconnected() { [ "$(reconnects)" -ge "$1" ]; }

fill_files() {
    local round
    for round in 1 2 3 4; do
        cp -r "$libraries"/lib[a-e]* "/mnt/$round"
        sync
    done
}

prepare() {
    step "two volumes, one with a file system"
    connect files --nr-io-queues 1
    files_disk=$disk
    mkfs.ext4 -q -F "$files_disk"
    mount "$files_disk" /mnt
    mkdir /mnt/1 /mnt/2 /mnt/3 /mnt/4
    connect data --nr-io-queues 2
    verify "$disk" 16k 32M --randseed=1
}

# The run is long enough to take several times as long as the restarts.
write_across_restarts() {
    step "restart in the middle of writes"
    local start writer filler
    verify "$disk" 16k 32M --randseed=2 --rate=2m &
    writer=$!
    fill_files &
    filler=$!
    start=$(written_sectors "$disk")
    wait_for "the first writes" 30 has_written "$disk" $((start + 8192))
    mark restart
    wait_for "two connections to come back" 60 have_reconnected 2
    start=$(written_sectors "$disk")
    wait_for "more writes" 30 has_written "$disk" $((start + 8192))
    mark restart
    wait_for "two connections to come back again" 60 have_reconnected 4
    wait $writer || fail "fio found what it did not write"
    wait $filler || fail "the file system refused writes"
}

check_files() {
    step "the file system is sound"
    local round
    expected=$(tree_checksum "$libraries" 'lib[a-e]*')
    umount /mnt
    e2fsck -f -n "$files_disk"
    mount "$files_disk" /mnt
    for round in 1 2 3 4; do
        expect_equal "checksum of round $round" "$(tree_checksum "/mnt/$round" '*')" "$expected"
    done
    umount /mnt
}

prepare
write_across_restarts
check_files
disconnect data
disconnect files
expect_no_io_errors
