#!/usr/bin/env bash
# usage: nsr.sh MODEL DATA PREPROCESS
# The NSR at the model's output, simulated, for formats of weights (rows) and activations (columns): the table of docs/formats.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
qwb calibrate "$1" --data "$2" --preprocess "$3" --samples 16 --platform "$here/formats.yaml" -o p.plan.json >/dev/null 2>&1
nsr() {
  cp p.plan.json t.plan.json
  cp p.stats t.stats
  for decision in "$@"; do qwb set t.plan.json '*' "$decision" >/dev/null 2>&1; done
  qwb analyze t.plan.json --graphwise --samples 16 --json 2>/dev/null |
    python3 -c 'import json, sys; print("%.2g" % json.load(sys.stdin)["outputs"][0]["nsr"])'
}
activations=(int16-sym-tensor uint8-asym-tensor e4m3-sym-tensor int8-sym-dynamic-tensor)
for weights in int8-sym-channel int8-sym-tensor int4-sym-channel int4-sym-g32 e4m3-sym-channel e4m3-sym-tensor e5m2-sym-tensor \
  int8-sym-mx32 e4m3-sym-mx32 e2m1-sym-mx32 e2m1-sym-mx32ceil e2m1-sym-nv16 nf4-sym-g64; do
  printf '| `%s` |' "$weights"
  for a in "${activations[@]}"; do printf ' %s |' "$(nsr "weights=$weights" "activations=$a")"; done
  echo
done
