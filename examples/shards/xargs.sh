#!/bin/sh
# All parts of a run on one machine, as many at a time as it has processors, and then the whole. A part that is there is not done again.
set -eu
QWB=${QWB:-qwb} RUN=${RUN:-eval model.plan.json --data images --labels labels.tsv --mode int8} SHARDS=${SHARDS:-8} OUT=${OUT:-result.json}
export QWB RUN SHARDS
seq "$SHARDS" | xargs -P "$(nproc)" -I{} sh -c '[ -e {}.part ] || $QWB $RUN --threads 1 --shard {}/$SHARDS --part {}.part'
$QWB merge $(seq -f %.0f.part "$SHARDS") --json > "$OUT"
