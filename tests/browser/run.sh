#!/usr/bin/env bash
# Learns every lesson, puts hostile text into every field that a page shows, serves that home, and looks at it with a real browser.
# Needs Chromium, node and npm. A picture of every page goes to the folder that is named behind the program, else to PICTURES, else
# nowhere: as <path>-<1280 or 360>-<light or dark>.png, slashes of the path as underscores.
# usage: tests/browser/run.sh <self> [folder for pictures]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
self=$(realpath "$1")
work=$(mktemp -d)
pictures=${2:-${PICTURES:-$work/pictures}}
mkdir -p "$pictures" "$work/home" "$work/bin"
pictures=$(realpath "$pictures")
ln -s "$self" "$work/bin/self"
export PATH="$work/bin:$PATH" SELF_HOME="$work/home" XDG_STATE_HOME="$work/state" HOME="$work" SELF_BIND=127.0.0.1:0
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

cp "$here/check.mjs" "$work/"
(cd "$work" && npm install --silent --no-save --no-audit --no-fund playwright-core@1 axe-core@4)

for lesson in "$root"/lessons/*/; do
    self learn "$lesson" 2>/dev/null | "$root/examples/mind-shelf" | self >/dev/null 2>&1
done
hostile='</title></p></textarea></main><script>window.acted=true</script><img src=x onerror=window.acted=true><svg onload=window.acted=true><form action=//evil><meta http-equiv=refresh content=0;url=//evil><a href=javascript:window.acted=true>x</a><style>*{display:none}</style>"'"'"
python3 - "$hostile" <<'PY' | SELF_CALLER="$hostile" self hear 2>/dev/null
import json, sys
text = sys.argv[1]
def event(name, payload): print(json.dumps({"name": name, "payload": payload}))
for name in ("journal.entry", "memory.noted", "decision.made", "self.identity", "session.started", "session.noted", "timer.set", "check.passed"):
    event(name, {"text": text, "name": text, "title": text, "content": text, "why": text})
event("chat.message", {"role": "user", "content": text})
event("file.added", {"name": text, "content": "eA=="})
event("command.declared", {"name": "hostile", "description": text, "params": {text: text}, "event": {"name": "a.b", "fields": {text: text}}})
event("command.declared", {"name": "../" + text})
PY

# A command that has two scripts, that can fail, and whose texts are hostile; and one that is picky about what is typed.
script() { printf '```self command/%s\n#!/bin/sh\n%s```\n' "$1" "$2" | SELF_CALLER="$hostile" self hear 2>/dev/null; }
script hostile "# $hostile
exit 1
"
script hostile "cat >&2 <<'END'
$hostile
END
exit 3
"
self run hostile x >/dev/null 2>&1 || true
picky='{"name":"picky","description":"Takes what is good.","params":{"text":"text","sure":"boolean","n":"integer, optional","how":"well|badly, optional"},"event":{"name":"good.taken","fields":{"text":"string"}}}'
printf '{"name":"command.declared","payload":%s}\n' "$picky" | self hear 2>/dev/null
script picky 'case "$1" in good*) ;; *) echo "usage: picky <good …>" >&2; exit 2;; esac
printf "{\"name\":\"good.taken\",\"payload\":{\"n\":%s}}\n" "$#"
'

self serve >"$work/address" 2>"$work/words" &
server=$!
for _ in $(seq 300); do [ -s "$work/address" ] && break; sleep 0.1; done
address=$(cat "$work/address")
# The page `/kernel` lists each projection.
pages=$(python3 -c 'import re, sys, urllib.request as u; print(" ".join(sorted(set(re.findall(r"<h3>\s*<a href=\"(/[^\"]+)\"", u.urlopen(sys.argv[1] + "kernel").read().decode())))))' "$address")
cd "$work"
seq=$(wc -l <"$SELF_HOME/events.jsonl")
# shellcheck disable=SC2086
node check.mjs "$address" "$pictures" / /-/today /kernel /nosuch /-/log "/-/log?name=j*&q=script" /-/search "/-/search?q=script" "/-/event/$((seq - 1))" \
    /-/capability /-/capability/command/hostile '/-/capability/command/hostile?from=0&to=0' /-/capability/command/picky \
    /-/capability/projector/memory /-/capability/command/nosuch $pages
