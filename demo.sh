#!/bin/sh
# Builds self, then shows the whole loop offline, in a home of its own that is removed afterwards. The mind is examples/mind-stub,
# a filter without a model; put any other in its place.
set -eu
cd "$(dirname "$0")"

echo "== building"
cargo build --quiet
PATH="${CARGO_TARGET_DIR:-$(pwd)/target}/debug:$PATH"
play=$(mktemp -d)
SELF_HOME=$play/home
mkdir "$SELF_HOME"
export PATH SELF_HOME
unset SELF_CALLER SELF_MIND_ID
trap 'rm -rf "$play"' EXIT

log=$SELF_HOME/events.jsonl
mind=examples/mind-stub
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
# How many events of this name the log holds.
count() { grep -c "\"name\":\"$1\",\"occurred_at\"" "$log" || true; }
must_hold() { [ "$(count "$2")" = "$1" ] || fail "the log holds $(count "$2") of $2, not $1"; }

say 'a question:  echo "what can you do?" | self | mind | self'
echo "what can you do?" | SELF_CALLER=demo self | "$mind" | SELF_CALLER=stub self
must_hold 1 self.asked
must_hold 1 self.replied

say "an intent becomes declarations:  self learn lessons/journal | mind | self"
self learn lessons/journal | "$mind" | SELF_CALLER=stub self
must_hold 1 command.declared
must_hold 1 projector.declared
if self quiet; then fail "a pending declaration is work"; fi

say "an answer becomes signed scripts:  self < /dev/null | mind | self"
self < /dev/null | "$mind" | SELF_CALLER=stub SELF_MIND_ID=mind-stub self
must_hold 2 script.compiled
self quiet || fail "nothing should be left to write"

say 'a command appends an event:  self run entry "the kettle is on"'
SELF_CALLER=demo self run entry "the kettle is on"
# shellcheck disable=SC2016 # the words are to be kept as they stand
SELF_CALLER=demo self run entry '<b>"hostile"</b> & $(date) `date` \n'
must_hold 2 journal.entry

say "a crash in the middle of a write: the last record is cut, then life goes on"
printf '{"id":"0000","seq":99,"name":"journal.en' >> "$log"
SELF_CALLER=demo self run entry "after the crash"
must_hold 1 log.recovered
[ "$(ls "$SELF_HOME/.self/torn" | wc -l)" -eq 1 ] || fail "the torn bytes were not set aside"

say "a page shows what was kept:  self show journal"
self show journal
self show journal | grep -q '&lt;b&gt;' || fail "the page does not hold the text as text"

say "experience travels as an account, evidence and no code:  self give journal. DIR; self learn DIR | mind | self"
mkdir "$play/account" "$play/third"
cp lessons/journal/intent.md "$play/account"
self give journal. "$play/account"
(
    SELF_HOME=$play/third
    self learn "$play/account" | "$mind" | SELF_CALLER=stub self
    self < /dev/null | "$mind" | SELF_CALLER=stub self
    self learn "$play/account" > /dev/null
    self show journal
    grep -c '"via":"learn:account"' "$SELF_HOME/events.jsonl" > "$play/learned"
)
[ "$(cat "$play/learned")" = 3 ] || fail "the third home learned $(cat "$play/learned") events, not 3"

say "what the log holds now"
cut -c 1-150 "$log"
lines=$(grep -c '' "$log")
last=$(sed -n '$s/.*"seq":\([0-9]*\),.*/\1/p' "$log")
[ "$lines" = "$last" ] || fail "$lines lines, but the last is number $last"

say "a second home gets the log and the key, nothing else:  self rehydrate"
mkdir "$play/second"
cp -p "$log" "$SELF_HOME/.secret" "$play/second"
SELF_HOME=$play/second self rehydrate
for derived in capabilities site; do
    [ -n "$(find "$play/second/$derived" -type f)" ] || fail "$derived/ was not rebuilt"
    diff -r "$SELF_HOME/$derived" "$play/second/$derived" || fail "$derived/ differs"
    (cd "$play/second" && find "$derived" -type f)
done

printf '\nThe loop works: %s events, nothing lost, and the second home is the same byte for byte.\n' "$lines"
