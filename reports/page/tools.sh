#!/usr/bin/env bash
# Formats the modules of the page and checks their types, with tools of npm that are kept outside of the project. `tools.sh check` changes nothing.
set -euo pipefail
cd "$(dirname "$0")"
tools=${QWB_NODE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/qwb-node-tools}
npm install --silent --no-audit --no-fund --prefix "$tools" dprint@0.57.4 @dprint/typescript@0.96.1 typescript@7.0.2
mode=fmt
[ "${1:-}" != check ] || mode=check
"$tools/node_modules/.bin/dprint" "$mode" --plugins "$tools/node_modules/@dprint/typescript/plugin.wasm"
"$tools/node_modules/.bin/tsc" -p .
