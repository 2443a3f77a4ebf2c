# File systems on a volume: created, filled, read back and checked.

copy_and_compare() {
    local name=$1
    mount -t "$name" "$disk" /mnt
    mkdir /mnt/tree
    cp -r "$libraries"/lib[a-g]* /mnt/tree
    expected=$(tree_checksum "$libraries" 'lib[a-g]*')
    umount /mnt
    # A fresh mount reads from the volume, not from the page cache.
    echo 3 >/proc/sys/vm/drop_caches
    mount -t "$name" "$disk" /mnt
    expect_equal "checksum of the tree on $name" "$(tree_checksum /mnt/tree '*')" "$expected"
    rm -r /mnt/tree
    fstrim /mnt
    umount /mnt
}

step "ext4"
connect data --nr-io-queues 2 --data-digest
mkfs.ext4 -q -F "$disk"
copy_and_compare ext4
e2fsck -f -n "$disk"

step "xfs"
mkfs.xfs -q -f "$disk"
copy_and_compare xfs
xfs_repair -n "$disk"
disconnect data
expect_no_io_errors
