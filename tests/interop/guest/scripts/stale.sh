# A volume of a cluster over two paths, with the default options of the kernel's multipath. The node of the
# first path, which takes all I/O, stands still while a write is under way: the kernel gives the path up after the
# keep-alive time-out, and repeats the write over the other one. When the node goes on, it must not execute the
# write that lies in its socket.
#
# Further parameter: SECOND_PORT, of the other node.

fill() { head -c 4096 /dev/zero | tr '\0' "$1" >"/tmp/$1"; }

write_block() { dd if="/tmp/$1" of="$disk" bs=4096 count=1 seek=1000 oflag=direct conv=notrunc status=none; }

expect_block() { read_range "$disk" 4096000 4096 | cmp - "/tmp/$1" || fail "the block is not that of the write $1"; }

connect_by_default() {
    controller=$(nvme connect --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$1" --nqn "$(nqn_of data)" \
        --output-format json | jq -r .device)
    wait_for "namespace 1" 20 disk_appeared "$controller"
}

step "two nodes are two paths to one volume"
connect_by_default "$TARGET_PORT"
first=$controller
connect_by_default "$SECOND_PORT"
for letter in E A B; do fill "$letter"; done
# The path of the first write is kept.
write_block E
expect_block E
written=$(cat /sys/block/"${first}"c*n1/stat 2>/dev/null | awk '{ sum += $5 } END { print sum + 0 }')
[ "$written" -gt 0 ] || fail "the first path has written nothing"

for round in 1 2; do
    step "round $round: a write is repeated over the other path, and a newer one follows"
    before=$(reconnects)
    mark freeze
    write_block A
    write_block B
    expect_block B
    mark thaw
    wait_for "the first path" 60 is_live "$first"
    [ "$(reconnects)" -gt "$before" ] || fail "the node did not stand still for long enough"
    expect_block B
done
nvme disconnect --nqn "$(nqn_of data)"
