# The beginning of every guest script: the channel to the host, checks, and the NVMe/TCP host.
#
# Parameters (from the host side): TARGET_ADDRESS, TARGET_PORT.
# The console shows each command as it runs; the host side keeps it as the run's log.

set -eu -o pipefail
PS4='+ '
exec 3<>/run/nearflash/channel
trap 'finish $?' EXIT
set -x

# --- The channel ----------------------------------------------------------------------------------

tell_host() { printf '%s\n' "$*" >&3; }

finish() {
    { set +x; } 2>/dev/null
    [ "$1" = 0 ] || dmesg | tail -n 40
    tell_host "exit $1"
}

# Names the next step, in the log and to the host.
step() {
    { set +x; } 2>/dev/null
    printf '\n== %s s: %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$*"
    tell_host "step $*"
    set -x
}

# Waits until the host has executed the action for NAME; stores its answer in $answer.
mark() {
    if command -v "local_$1" >/dev/null; then
        "local_$1"
        return
    fi
    tell_host "mark $1"
    read -r answer <&3
}

# --- Checks ---------------------------------------------------------------------------------------

fail() {
    { set +x; } 2>/dev/null
    printf 'FAILED: %s\n' "$*"
    tell_host "failed $*"
    exit 1
}

# expect_equal WHAT FOUND EXPECTED
expect_equal() {
    [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

# expect_json FILE JQ_CONDITION: the condition holds for the document.
expect_json() {
    jq -e "$2" "$1" >/dev/null || { cat "$1"; fail "$1: not so: $2"; }
}

# expect_refused TEXT COMMAND...: the command fails, and its output contains TEXT.
expect_refused() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1); then
        fail "succeeded: $*"
    fi
    case $output in
        *"$text"*) ;;
        *) fail "'$*' said '$output' instead of '$text'" ;;
    esac
}

# wait_for WHAT SECONDS COMMAND...: until the command succeeds.
wait_for() {
    { set +x; } 2>/dev/null
    local what=$1 tries=$(($2 * 10))
    shift 2
    until "$@" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited too long for $what"
        sleep 0.1
    done
    set -x
}

# No program learns of a failed discard or readahead; only the kernel's log reports it.
expect_no_io_errors() {
    ! dmesg | grep 'I/O error' || fail "the kernel saw I/O errors"
}

# --- The NVMe/TCP host ----------------------------------------------------------------------------

nqn_of() { printf 'nqn.2026-11.io.nearflash:%s' "$1"; }

# connect VOLUME [OPTION of nvme connect]...: sets $controller (nvme0) and $disk (/dev/nvme0n1).
connect() {
    local volume=$1
    shift
    controller=$(nvme connect --transport tcp --traddr "$TARGET_ADDRESS" --trsvcid "$TARGET_PORT" \
        --nqn "$(nqn_of "$volume")" --reconnect-delay 1 --ctrl-loss-tmo 120 --keep-alive-tmo 5 \
        --output-format json "$@" | jq -r .device)
    wait_for "namespace 1 of $volume" 20 disk_appeared "$controller"
}

# With several paths a namespace belongs to the subsystem, and each path to it is nvme0c0n1.
disk_appeared() {
    local path
    path=$(cd "/sys/class/nvme/$1" && echo nvme*n1)
    disk=/dev/$(echo "$path" | sed 's/c[0-9]*n/n/')
    [ -b "$disk" ] && [ "$(blockdev --getsize64 "$disk")" -gt 0 ]
}

disconnect() { nvme disconnect --nqn "$(nqn_of "$1")"; }

controller_state() { cat "/sys/class/nvme/$1/state"; }

is_live() { [ "$(controller_state "$1")" = live ]; }

# The number of reconnects of a controller.
reconnects() { dmesg | grep -c 'Successfully reconnected' || true; }

# --- Data -----------------------------------------------------------------------------------------

# Real files of many sizes to copy: the guest's own libraries.
libraries=/usr/lib/x86_64-linux-gnu

# verify DISK BLOCK_SIZE SIZE [OPTION of fio]...: writes each block once, in random order, and reads
# all back.
verify() {
    local file=$1 block_size=$2 size=$3
    shift 3
    local said
    said=$(mktemp)
    fio --name=verify --filename="$file" --direct=1 --rw=randwrite --bs="$block_size" --size="$size" \
        --ioengine=io_uring --iodepth=16 --verify=crc32c --do_verify=1 --verify_fatal=1 \
        --verify_state_save=0 --randrepeat=0 --output-format=terse --terse-version=3 "$@" >"$said" 2>&1 ||
        { cat "$said"; return 1; }
}

# tree_checksum FOLDER NAME_PATTERN: of the files there, and their names.
tree_checksum() {
    (cd "$1" && find . -type f -name "$2" | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
}

# read_range FILE OFFSET LENGTH, both in bytes and whole blocks, past the page cache.
read_range() {
    dd if="$1" bs=4096 iflag=direct,skip_bytes,count_bytes skip="$2" count="$3" status=none
}

checksum_range() { read_range "$@" | sha256sum | cut -d' ' -f1; }

# expect_zeroes DISK OFFSET LENGTH
expect_zeroes() {
    expect_equal "$1 at $2" "$(checksum_range "$@")" "$(head -c "$3" /dev/zero | sha256sum | cut -d' ' -f1)"
}

# fill_range DISK OFFSET LENGTH: random bytes, on stable media when it returns.
fill_range() {
    dd if=/dev/urandom of="$1" bs=64K iflag=count_bytes,fullblock oflag=direct,seek_bytes seek="$2" \
        count="$3" conv=fsync status=none
}
