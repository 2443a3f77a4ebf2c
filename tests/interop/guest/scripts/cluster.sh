# A volume of a cluster over two paths: one to the node that has its blocks, one to another node, which is
# killed while a file system is filled.
#
# Further parameter: SECOND_PORT, of the node that is killed.

paths() { nvme list-subsys --output-format json | jq '[.. | .Paths? // empty | .[]] | length'; }

has_paths() { [ "$(paths)" = "$1" ]; }

written_sectors() { awk "{ print \$7 }" "/sys/block/${1#/dev/}/stat"; }

has_written() { [ "$(written_sectors "$1")" -gt "$2" ]; }

step "two nodes are two paths to one volume"
connect data --nr-io-queues 1
first=$controller
first_disk=$disk
first_port=$TARGET_PORT
TARGET_PORT=$SECOND_PORT
connect data --nr-io-queues 1
second=$controller
expect_equal "the disk over the second path" "$disk" "$first_disk"
wait_for "both paths" 20 has_paths 2
[ "$(cat /sys/class/nvme/"$first"/cntlid)" != "$(cat /sys/class/nvme/"$second"/cntlid)" ] ||
    fail "both controllers have the same number"
expect_equal "the serial number of the second path" "$(cat /sys/class/nvme/"$second"/serial)" \
    "$(cat /sys/class/nvme/"$first"/serial)"
echo round-robin >"/sys/class/nvme-subsystem/$(ls /sys/class/nvme-subsystem | head -n 1)/iopolicy"
verify "$disk" 16k 16M
mkfs.ext4 -q -F "$disk"
mount "$disk" /mnt
mkdir /mnt/1 /mnt/2

step "the node without the blocks is killed in the middle of writes"
(for round in 1 2; do cp -r "$libraries"/lib[a-e]* "/mnt/$round"; sync; done) &
filler=$!
start=$(written_sectors "$disk")
wait_for "the first writes" 30 has_written "$disk" $((start + 2048))
mark kill
wait $filler || fail "the file system refused writes"

step "the file system is sound"
expected=$(tree_checksum "$libraries" 'lib[a-e]*')
umount /mnt
e2fsck -f -n "$disk"
mount "$disk" /mnt
for round in 1 2; do
    expect_equal "checksum of round $round" "$(tree_checksum "/mnt/$round" '*')" "$expected"
done
umount /mnt
TARGET_PORT=$first_port
disconnect data
