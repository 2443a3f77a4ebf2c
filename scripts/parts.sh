# shellcheck shell=sh
# Runs named parts one after the other, some of them in the background, and says how long each took.
# Sourced by scripts/test and scripts/test-rest.
#
#   part NAME COMMAND...         runs it; ends the script if it fails
#   background NAME COMMAND...   starts it; one at a time, its output is kept
#   join                         waits for it, prints its output; ends the script if it failed
#   finish                       prints the durations

begun=$(date +%s)
folder=$(mktemp -d)
behind=
trap 'end_background; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

seconds_since() { echo $(($(date +%s) - $1)); }

part() {
  part_name=$1
  shift
  printf '\n== %s\n' "$part_name"
  part_begun=$(date +%s)
  part_status=0
  "$@" || part_status=$?
  note "$part_status" "$(seconds_since "$part_begun")" "$part_name"
}

# note STATUS SECONDS NAME
note() {
  printf '%5d s  %s\n' "$2" "$3" | tee -a "$folder/durations"
  if [ "$1" -ne 0 ]; then
    printf '== failed after %d s: %s\n' "$(seconds_since "$begun")" "$3" >&2
    exit 1
  fi
}

background() {
  behind=$1
  shift
  printf '\n== %s: in the background\n' "$behind"
  behind_begun=$(date +%s)
  # A group of its own, so that all of it can be ended.
  # shellcheck disable=SC2016 # the inner shell expands it
  setsid sh -c 'status=0; "$@" || status=$?; date +%s >"$0"; exit "$status"' \
    "$folder/ended" "$@" >"$folder/output" 2>&1 &
  behind_process=$!
}

join() {
  behind_status=0
  wait "$behind_process" || behind_status=$?
  join_name=$behind
  behind=
  printf '\n== %s\n' "$join_name"
  cat "$folder/output"
  note "$behind_status" $(($(cat "$folder/ended") - behind_begun)) "$join_name"
}

end_background() {
  [ -z "$behind" ] || kill -- "-$behind_process" 2>/dev/null || true
}

finish() {
  printf '\n'
  cat "$folder/durations"
  printf '== all passed in %d s\n' "$(seconds_since "$begun")"
}
