#!/usr/bin/env bash
# usage: nsr.sh MODEL DATA PREPROCESS
# The NSR at the model's output, simulated: the tables of docs/formats.md. First formats of weights (rows) and activations (columns), then
# formats of activations with weights of 8 bits.
# An error of qwb ends it; warnings are not shown.
set -euo pipefail
[ $# = 3 ] || { echo "usage: nsr.sh MODEL DATA PREPROCESS" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
model=$(realpath "$1")
data=$(realpath "$2")
preprocess=$3
[ ! -f "$preprocess" ] || preprocess=$(realpath "$preprocess")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
quiet() {
  "$@" 2>err || { cat err >&2; exit 1; }
}
quiet qwb calibrate "$model" --data "$data" --preprocess "$preprocess" --samples 16 --platform "$here/formats.yaml" -o p.plan.json >/dev/null
nsr() {
  cp p.plan.json t.plan.json
  cp p.stats t.stats
  for decision in "$@"; do quiet qwb set t.plan.json '*' "$decision" >/dev/null; done
  quiet qwb analyze t.plan.json --graphwise --samples 16 --json >t.json
  python3 -c 'import json; print("%.2g" % json.load(open("t.json"))["outputs"][0]["nsr"])'
}
activations=(int16-sym-tensor uint8-asym-tensor e4m3-sym-tensor int8-sym-dynamic-tensor)
printf '| weights |'
printf ' `%s` |' "${activations[@]}"
printf '\n|---|---|---|---|---|\n'
for weights in int8-sym-channel int8-sym-tensor int4-sym-channel int4-sym-g32 e4m3-sym-tensor e4m3-sym-channel e5m2-sym-tensor \
  int8-sym-mx32 e4m3-sym-mx32 e2m1-sym-mx32 e2m1-sym-mx32ceil e2m1-sym-nv16 nf4-sym-g64; do
  line="| \`$weights\` |"
  for a in "${activations[@]}"; do
    value=$(nsr "weights=$weights" "activations=$a")
    line+=" $value |"
  done
  echo "$line"
done
printf '\n| activations | |\n|---|---|\n'
for a in e5m2-sym-tensor uint8-asym-dynamic-tensor e4m3-sym-dynamic-tensor int8-sym-g32 e4m3-sym-mx32 e2m1-sym-mx32 e2m1-sym-mx32ceil e2m1-sym-nv16; do
  value=$(nsr weights=int8-sym-channel "activations=$a")
  echo "| \`$a\` | $value |"
done
