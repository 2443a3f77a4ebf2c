# A volume that lies on another node than the one that the host is connected to. The other node is
# killed and started again while a file system is filled; the host stays connected all the time.

written_sectors() { awk "{ print \$7 }" "/sys/block/${1#/dev/}/stat"; }

has_written() { [ "$(written_sectors "$1")" -gt "$2" ]; }

fill_files() {
    local round
    for round in 1 2 3 4; do
        cp -r "$libraries"/lib[a-e]* "/mnt/$round"
        sync
    done
}

step "a file system on a volume of another node"
connect files --nr-io-queues 1
verify "$disk" 16k 8M
mkfs.ext4 -q -F "$disk"
mount "$disk" /mnt
mkdir /mnt/1 /mnt/2 /mnt/3 /mnt/4

step "that node crashes in the middle of writes"
fill_files &
filler=$!
start=$(written_sectors "$disk")
wait_for "the first writes" 30 has_written "$disk" $((start + 2048))
mark restart
wait $filler || fail "the file system refused writes"

step "the file system is sound"
expected=$(tree_checksum "$libraries" 'lib[a-e]*')
umount /mnt
e2fsck -f -n "$disk"
mount "$disk" /mnt
for round in 1 2 3 4; do
    expect_equal "checksum of round $round" "$(tree_checksum "/mnt/$round" '*')" "$expected"
done
umount /mnt
expect_equal "the number of reconnects" "$(reconnects)" 0
disconnect files
expect_no_io_errors
