#!/bin/sh
# Builds self, then shows the whole loop offline, in a home of its own that is removed afterwards. The mind is a filter without a model.
set -eu
cd "$(dirname "$0")"

echo "== building"
cargo build --quiet
PATH="$(pwd)/target/debug:$PATH"
SELF_HOME="$(mktemp -d)"
export PATH SELF_HOME
trap 'rm -rf "$SELF_HOME"' EXIT

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

# A mind: reads its prompt to the end, then answers in prose and in one event.
mind() {
    prompt=$(cat)
    case $prompt in
        *"## The ask"*)
            echo "Two things are on today."
            echo '{"name":"note.taken","payload":{"text":"somebody asked about today","seen":1.10}}' ;;
        *) echo "Nothing to add." ;;
    esac
}

say 'a question:  echo "what is going on today?" | self | mind | self'
answer=$(echo "what is going on today?" | SELF_CALLER=demo self | mind | SELF_CALLER=a-mind self)
printf '%s\n' "$answer"
[ "$answer" = "Two things are on today." ] || fail "the reply was not passed through"

say "what the log holds now"
cat "$SELF_HOME/events.jsonl"

say 'a command is missing, so a mind declares it:  … | self'
printf '%s\n' '```json' '{"name":"command.declared","payload":{"name":"note","params":{"text":"string"}}}' '```' | self
self quiet && fail "a pending declaration is work"

say "what the next mind is asked (the pending part of its prompt):  self work"
self work | sed -n '/^## Pending/,/^### /p'

say "a crash in the middle of a write: the last record is cut"
printf '{"id":"0000","seq":6,"name":"note.ta' >> "$SELF_HOME/events.jsonl"
echo '{"name":"note.taken","payload":{"text":"after the crash"}}' | self
ls "$SELF_HOME/.self/torn"
tail -n 2 "$SELF_HOME/events.jsonl"

say "every line is one event, numbered without a gap"
lines=$(grep -c '' "$SELF_HOME/events.jsonl")
last=$(sed -n '$s/.*"seq":\([0-9]*\),.*/\1/p' "$SELF_HOME/events.jsonl")
[ "$lines" = "$last" ] || fail "$lines lines, but the last is number $last"

printf '\nThe loop works: %s events, nothing lost.\n' "$lines"
