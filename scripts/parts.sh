# shellcheck shell=sh
# Runs named parts one after the other, some of them in the background, and says how long each took.
# Sourced by scripts/test, scripts/test-rest and scripts/test-timed. A COMMAND is a program, not a function.
#
#   part NAME COMMAND...         runs it; ends the script if it fails; with gives_way=yes, what is in the
#                                background goes first
#   background NAME COMMAND...   starts it; its output is kept
#   join                         waits for all of these, prints their outputs; ends the script if one failed
#   finish                       prints the durations

begun=$(date +%s)
parts_folder=$(mktemp -d)
gives_way=
behind=
front=
count=0
trap 'end_background; rm -rf "$parts_folder"' EXIT
trap 'exit 130' INT TERM

seconds_since() { echo $(($(date +%s) - $1)); }

part() {
  part_name=$1
  shift
  printf '\n== %s\n' "$part_name"
  part_begun=$(date +%s)
  part_status=0
  if [ -n "$behind" ] && [ -n "$gives_way" ]; then give_way "$@"; else "$@"; fi || part_status=$?
  note "$part_status" "$(seconds_since "$part_begun")" "$part_name"
}

# Runs it so that it has the processors when what is in the background waits. Between sessions, the kernel
# looks only at the priority of the session, where it groups processes by these (CONFIG_SCHED_AUTOGROUP).
give_way() {
  # shellcheck disable=SC2016 # the inner shell expands it
  setsid sh -c 'echo 10 2>/dev/null >/proc/self/autogroup; exec nice -n 10 "$@"' sh "$@" &
  front=$!
  wait "$front"
}

# note STATUS SECONDS NAME
note() {
  printf '%5d s  %s\n' "$2" "$3" | tee -a "$parts_folder/durations"
  if [ "$1" -ne 0 ]; then
    printf '== failed after %d s: %s\n' "$(seconds_since "$begun")" "$3" >&2
    exit 1
  fi
}

background() {
  count=$((count + 1))
  behind="$behind $count"
  printf '\n== %s: in the background\n' "$1"
  printf '%s' "$1" >"$parts_folder/$count.name"
  shift
  date +%s >"$parts_folder/$count.begun"
  # A group of its own, so that all of it can be ended.
  # shellcheck disable=SC2016 # the inner shell expands it
  setsid sh -c 'status=0; "$@" || status=$?; date +%s >"$0"; exit "$status"' \
    "$parts_folder/$count.ended" "$@" >"$parts_folder/$count.output" 2>&1 &
  echo $! >"$parts_folder/$count.process"
}

join() {
  for number in $behind; do
    join_status=0
    wait "$(cat "$parts_folder/$number.process")" || join_status=$?
    behind=${behind#" $number"}
    join_name=$(cat "$parts_folder/$number.name")
    printf '\n== %s\n' "$join_name"
    cat "$parts_folder/$number.output"
    note "$join_status" $(($(cat "$parts_folder/$number.ended") - $(cat "$parts_folder/$number.begun"))) "$join_name"
  done
}

end_background() {
  for number in $behind; do
    kill -- "-$(cat "$parts_folder/$number.process")" 2>/dev/null || true
  done
  [ -z "$front" ] || kill -- "-$front" 2>/dev/null || true
}

finish() {
  printf '\n'
  cat "$parts_folder/durations"
  printf '== all passed in %d s\n' "$(seconds_since "$begun")"
}
