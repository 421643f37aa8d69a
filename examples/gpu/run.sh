#!/usr/bin/env bash
# Builds, checks and measures qwb on an NVIDIA GPU: docs/gpu.md. build needs Go and runs anywhere; all other stages run on a bare
# Linux machine with a GPU, from what build left in bin beside this script.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${BIN:-$here/bin}
out=${OUT:-results}
backend=${QWB_BACKEND:-cuda} # ptx: everything on the interpreter, at tiny sizes, to test this script
limit=${LIMIT:-500}          # seconds that a stage may take
stages=(tests sanitize verify kernels networks)

usage() {
  cat <<'EOF'
run.sh build      compile qwb and the tests of packages with device code, and prepare models, into examples/gpu/bin
run.sh tests      run the compiled tests on the GPU
run.sh sanitize   run the tests of the kernels under compute-sanitizer: memcheck, racecheck, initcheck
run.sh verify     integer programs on the GPU against the reference, classifiers under every arithmetic profile; calibration
run.sh kernels    kernels next to the device's peaks, and to torch's int8 products where torch is
run.sh networks   INT8 networks at batch 1, 32, 256, next to bfloat16 in torch where torch is
run.sh            all stages but build
Environment: OUT (results), BIN (where build's output is), LIMIT (seconds for a stage: 500), QWB_BACKEND (cuda; ptx: the interpreter).
EOF
}

# ---- JSON, without any program that may be missing ----

# quote prints its standard input as a JSON string.
quote() {
  LC_ALL=C tr -d '\000-\010\013-\037\177-\377' | LC_ALL=C awk 'BEGIN { printf "\"" } { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); printf "%s%s", (NR > 1 ? "\\n" : ""), $0 } END { printf "\"" }'
}

text() { printf '%s' "$1" | quote; }

# whole prints a file that holds JSON, or null where a program did not come to writing one.
whole() { if [ -s "$1" ] && [ "$(head -c 1 "$1")" = "{" ]; then cat "$1"; else printf 'null'; fi; }

# join prints lines with commas between them.
join() { awk 'NR > 1 { printf ",\n" } { printf "%s", $0 } END { if (NR) printf "\n" }' "$1"; }

# ---- stages ----

started=$SECONDS
deadline=$limit

# left prints the seconds that the stage still has, at least 1.
left() {
  local n=$((deadline - SECONDS))
  echo $((n > 1 ? n : 1))
}

# run_for LOG COMMAND... runs a command within the stage's time; its output goes to LOG. Sets rc and seconds.
run_for() {
  local log=$1 before=$SECONDS
  shift
  timeout -k 5 "$(left)" "$@" >"$log" 2>&1
  rc=$?
  seconds=$((SECONDS - before))
}

# finished STAGE OK NOTE
finished() { summary+=("{\"stage\": \"$1\", \"ok\": $2, \"seconds\": $((SECONDS - began)), \"note\": $(text "$3")}"); notes+=("$(printf '%-9s %-6s %s' "$1" "$([ "$2" = true ] && echo ok || echo FAILED)" "$3")"); }

# unpack decompresses what build left into a folder where it can run. Either half may be missing: the tests, or qwb and the models.
unpack() {
  if [ ! -e "$bin/qwb.gz" ] && [ ! -d "$bin/tests" ]; then
    echo "run.sh: nothing in $bin: run '$0 build' where Go is, and take examples/gpu/bin along" >&2
    exit 1
  fi
  work=$(mktemp -d "${TMPDIR:-/tmp}/qwb-gpu.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/tests" "$work/models"
  for f in "$bin"/qwb.gz "$bin"/tests/*.gz; do
    local to=${f#"$bin/"}
    [ -e "$f" ] && gzip -dc "$f" >"$work/${to%.gz}" && chmod +x "$work/${to%.gz}"
  done
  if [ -d "$bin/models" ]; then
    cp -r "$bin/models" "$work/"
    gzip -d "$work"/models/*.gz
  fi
  if [ -e "$bin/sanitizer.tar.gz" ]; then
    mkdir "$work/sanitizer"
    tar -xzf "$bin/sanitizer.tar.gz" -C "$work/sanitizer"
  fi
  qwb=$work/qwb
}

# needs STAGE PATH says whether what a stage needs was taken along.
needs() {
  [ -e "$2" ] && return 0
  finished "$1" false "${2#"$work/"} was not taken along"
  return 1
}

# package prints the folder of a test binary's package, which some of its tests read; another where it is not here.
package() {
  local dir=$root/${1//.//}
  if [ -d "$dir" ]; then echo "$dir"; else echo "$work"; fi
}

# tests: name of a package with dots for slashes, and what to run of it.
tested=("kernels.cuda|." "quantizer.program.gpu|." "graph.device|." "graph.language.decode.gpu|." "calib|Device")

# sanitized: the packages whose tests launch every kernel at least once; the second one has those that only language models use.
sanitized=(kernels.cuda graph.language.decode.gpu)

stage_build() {
  command -v go >/dev/null || { echo "run.sh: build needs Go" >&2; exit 1; }
  rm -rf "$bin"
  mkdir -p "$bin/tests" "$bin/models"
  cd "$root" || exit 1
  local build=(-trimpath -ldflags "-s -w") made
  made=$(mktemp -d)
  CGO_ENABLED=0 go build "${build[@]}" -o "$made/qwb" ./cmd/qwb || exit 1
  gzip -9 <"$made/qwb" >"$bin/qwb.gz"
  for t in "${tested[@]}"; do
    local name=${t%%|*}
    [ -d "${name//.//}" ] || { echo "run.sh: there is no package ${name//.//}" >&2; exit 1; }
    CGO_ENABLED=0 go test -c "${build[@]}" -o "$made/$name" "./${name//.//}" || exit 1
    [ -e "$made/$name" ] && gzip -9 <"$made/$name" >"$bin/tests/$name.gz"
  done
  models "$made/qwb"
  rm -rf "$made"
  local tests rest
  tests=$(du -sm "$bin/tests" | cut -f1)
  rest=$(($(du -sm "$bin" | cut -f1) - tests))
  echo "$bin: $tests MiB of tests, $rest MiB of qwb and models"
  [ "$tests" -le 46 ] && [ "$rest" -le 46 ] || { echo "run.sh: more than 46 MiB: with the repository beside it that is more than 64" >&2; exit 1; }
}

# models prepares plans of the classifiers in QWB_TESTDATA, unless that is empty, and of the network that is part of qwb.
models() {
  local qwb=$1 data=${QWB_TESTDATA-$root/../shared}
  cd "$bin/models" || exit 1
  "$qwb" demo >/dev/null && mv qwb-demo/glyphs.onnx . && mkdir -p data/glyphs &&
    find qwb-demo/data/calibration -type f | sort | head -n 24 | xargs -I{} mv {} data/glyphs/
  rm -rf qwb-demo ./*.plan.json ./*.stats
  plans "$qwb" glyphs.onnx data/glyphs data/glyphs none
  if [ -n "$data" ] && [ -d "$data/models" ]; then
    mkdir -p data/pets data/cifar
    find "$data/data/pets/calibration" -name '*.jpg' | sort | awk 'NR % 26 == 1' | xargs -I{} cp {} data/pets/
    head -c $((8 * 3073)) "$data/data/cifar10/calibration_500.bin" >data/cifar/eight.bin
    if [ -e "$data/models/llm/stories260K-q8.bin" ]; then
      cp "$data/models/llm/stories260K-q8.bin" "$data/models/llm/tok512.bin" .
      head -n 20 "$data/data/text/tinystories_valid_head.txt" >stories.txt
    fi
    while read -r model calibration verification preprocess; do
      [ -e "$data/models/$model" ] || continue
      cp "$data/models/$model" .
      [ -e "$data/data/$calibration" ] && calibration=$data/data/$calibration
      plans "$qwb" "$(basename "$model")" "$calibration" "$verification" "$preprocess"
    done <<'EOF'
classifiers/mobilenet_v1_1.0_224.onnx pets/calibration data/pets imagenet-inception
classifiers/mobilenetv2_0.35_catdog.onnx pets/calibration data/pets imagenet-inception
classifiers/squeezenet1.0.onnx pets/calibration data/pets imagenet-caffe
mlperf-tiny/pretrainedResnet.onnx cifar10/calibration_500.bin data/cifar/eight.bin none
mlperf-tiny/pretrainedResnet_large_float.onnx cifar10/calibration_500.bin data/cifar/eight.bin none
mlperf-tiny/vww_96_float.onnx synthetic:16 synthetic:4 none
mlperf-tiny/kws_dequant_fp32.onnx synthetic:16 synthetic:4 none
mnist/mnist-8.onnx synthetic:16 synthetic:4 none
mnist/cnn_mnist_pytorch.onnx synthetic:16 synthetic:4 none
EOF
  fi
  rm -f ./*.stats ./*.bak
  chmod -R u+w .
  gzip -9 ./*.onnx ./*.plan.json
}

# plans QWB MODEL CALIBRATION-DATA DATA PREPROCESS makes the plans of a model, and a line for each in the list that verify follows.
plans() {
  for platform in onnxruntime trt_int8; do
    local plan=${2%.onnx}.$platform.plan.json
    if "$1" calibrate "$2" --data "$3" --samples 24 --preprocess "$5" --platform $platform -o "$plan" >/dev/null 2>"$bin/log"; then
      echo "$plan $4" >>list
    else
      echo "run.sh: $2 for $platform: $(tail -n 1 "$bin/log")" >&2
    fi
    rm -f "$bin/log"
  done
}

# hostonly are tests that no GPU takes part in, some of them long: of the sources, of the arithmetic compiled for the host, of the pool.
hostonly='PTX(IsCurrent|Assembles)|^Test(Host|FloatFunctionsOnHost|PoolRandomly|WarpgroupKernelsNeedEverything|OpenWithoutGPU)$'

stage_tests() {
  local rows=$work/rows all=true total=0 failures=0 cut=0 filter t runs=()
  needs tests "$work/tests/kernels.cuda" || return
  : >"$rows"
  for t in "${tested[@]}"; do
    [ -e "$work/tests/${t%%|*}" ] && runs+=("$t")
  done
  local remaining=${#runs[@]}
  for t in "${runs[@]}"; do
    # Each takes its share of what is left to it and its successors, the first, with most tests, as much as two.
    local name=${t%%|*} run=${t#*|} args=(-test.v) parts=$remaining share
    [ "$remaining" = ${#runs[@]} ] && parts=$(((remaining + 1) / 2))
    share=$(($(left) / parts))
    remaining=$((remaining - 1))
    filter=$run
    if [ "$backend" = ptx ]; then # only that the binaries start and count
      filter=${TESTS:-Peak|CUDA}
      args+=(-test.short)
    else
      export QWB_LONG=1 QWB_GPU=only QWB_RANDOM=${QWB_RANDOM:-100} # random programs
      args+=(-test.skip "$hostonly")
    fi
    cd "$(package "$name")" || exit 1
    run_for "$work/log" timeout -k 5 "$share" "$work/tests/$name" "${args[@]}" -test.run "$filter" -test.timeout 0
    cd "$here" || exit 1
    local passed failed skipped outcome=ok
    passed=$(grep -c '^ *--- PASS' "$work/log")
    failed=$(grep -c '^ *--- FAIL' "$work/log")
    skipped=$(grep -c '^ *--- SKIP' "$work/log")
    total=$((total + passed))
    failures=$((failures + failed))
    case $rc in
      0) ;;
      124 | 137) outcome="cut off" cut=$((cut + 1)) all=false ;;
      *) outcome=failed all=false ;;
    esac
    {
      printf '{"binary": "%s", "rc": %d, "outcome": "%s", "seconds": %d, "limit": %d, "passed": %d, "failed": %d, "skipped": %d, ' \
        "$name" "$rc" "$outcome" "$seconds" "$share" "$passed" "$failed" "$skipped"
      # What was cut off says where it was; what failed says why.
      printf '"running": %s, "failures": ' "$(if [ "$outcome" = "cut off" ]; then sed -n 's/^=== RUN *//p' "$work/log" | tail -n 1; fi | quote)"
      if [ "$outcome" = failed ] || [ "$failed" -gt 0 ]; then grep -v '^ *--- PASS\|^=== ' "$work/log" | tail -n 120 | quote; else printf '""'; fi
      echo '}'
    } >>"$rows"
    echo "tests: $name: $outcome: $passed passed, $failed failed, $skipped skipped, $seconds of $share s"
  done
  { echo '{"tests": ['; join "$rows"; echo ']}'; } >"$out/tests.json"
  [ "$total" -gt 0 ] || all=false
  finished tests $all "$total passed, $failures failed, $cut of ${#runs[@]} packages cut off by time"
}

# sanitizer prints where compute-sanitizer is: taken along in sanitizer.tar.gz, in the PATH, or beside a CUDA toolkit.
sanitizer() {
  for f in "$work"/sanitizer/*/compute-sanitizer "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    [ -f "$f" ] && [ -x "$f" ] && echo "$f" && return 0
  done
  return 1
}

stage_sanitize() {
  local tool=${SANITIZER:-} rows=$work/rows all=true
  needs sanitize "$work/tests/kernels.cuda" || return
  [ -n "$tool" ] || tool=$(sanitizer) || {
    echo '{"sanitize": [], "missing": "compute-sanitizer is not on this machine"}' >"$out/sanitize.json"
    finished sanitize false "no compute-sanitizer here"
    return
  }
  export QWB_GPU=only
  : >"$rows"
  local runs=() run
  for run in "${sanitized[@]}"; do
    [ -e "$work/tests/$run" ] && runs+=("memcheck $run" "racecheck $run" "initcheck $run")
  done
  local remaining=${#runs[@]}
  for run in "${runs[@]}"; do
    # Each takes its share of what is left to it and its successors.
    local check=${run% *} name=${run#* } share=$(($(left) / remaining)) errors passed
    remaining=$((remaining - 1))
    cd "$(package "$name")" || exit 1
    run_for "$work/log" timeout -k 5 "$share" "$tool" --tool "$check" --error-exitcode 99 --print-limit 20 "$work/tests/$name" -test.short -test.v -test.run "${TESTS:-.}"
    cd "$here" || exit 1
    errors=$(grep 'ERROR SUMMARY' "$work/log" | tail -n 1)
    passed=$(grep -c '^ *--- PASS' "$work/log")
    [ "$rc" = 0 ] || all=false
    {
      printf '{"tool": "%s", "package": "%s", "rc": %d, "cut_off": %s, "seconds": %d, "passed": %d, "summary": %s, "log": ' \
        "$check" "$name" "$rc" "$(case $rc in 124 | 137) echo true ;; *) echo false ;; esac)" "$seconds" "$passed" "$(text "$errors")"
      if [ "$rc" = 0 ]; then printf '""'; else grep -v '^ *--- PASS\|^=== ' "$work/log" | tail -n 120 | quote; fi
      echo '}'
    } >>"$rows"
    echo "sanitize: $check $name: rc $rc, $passed passed, $seconds s, $errors"
  done
  { echo '{"sanitize": ['; join "$rows"; echo ']}'; } >"$out/sanitize.json"
  finished sanitize $all "memcheck, racecheck, initcheck"
}

profiles=(tflite2 tflite1 tvm-upward tvm-nearest tvm-a64 ort onnx-ref rndnu ncnn pow2 pow2-floor pow2-half-away pow2-half-even avx2-saturating onnx trt)

# field FILE KEY prints a number or string of a JSON object of qwb, of its outermost keys.
field() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" | head -n 1; }

stage_verify() {
  local rows=$work/rows held=0 bad=0 compared=0
  needs verify "$qwb" && needs verify "$work/models/list" || return
  : >"$rows"
  cd "$work/models" || exit 1
  local only=${MODELS:-.}
  while read -r plan data; do
    [[ $plan =~ $only ]] || continue
    for profile in ${PROFILES:-"${profiles[@]}"}; do
      cp "$plan" now.plan.json # verify writes its outcome into the plan
      timeout -k 5 "$(left)" "$qwb" verify now.plan.json --backend "$backend" --profile "$profile" --data "$data" --samples 2 --json >"$work/json" 2>"$work/log"
      rc=$?
      local why different n
      why=$(tail -n 1 "$work/log")
      case $rc:$why in
        1:*"backend $backend: "*) # no device: the others would say the same
          printf '{"held": 0, "failed": 1, "integers_compared": 0, "runs": [], "error": %s}\n' "$(text "$why")" >"$out/verify.json"
          finished verify false "$why"
          cd "$here" || exit 1
          return
          ;;
        1:*' lower: '* | 1:*': lower'*) continue ;; # the profile has no form for the plan
      esac
      different=$(sed -n '/^  "backends": {/,/^  }/s/^ *"different": \([0-9]*\).*/\1/p' "$work/json")
      n=$(sed -n '/^  "backends": {/,/^  }/s/^ *"compared": \([0-9]*\).*/\1/p' "$work/json")
      if [ "$rc" = 0 ] && [ "${different:-1}" = 0 ] && [ "${n:-0}" -gt 0 ]; then
        held=$((held + 1))
        compared=$((compared + n))
        why=
      else
        bad=$((bad + 1))
        echo "verify: $plan $profile: rc $rc: $why"
      fi
      printf '{"plan": "%s", "profile": "%s", "rc": %d, "compared": %s, "different": %s, "verdict": "%s", "error": %s}\n' "$plan" "$profile" "$rc" "${n:-0}" "${different:-null}" \
        "$(field "$work/json" verdict)" "$(text "$why")" >>"$rows"
    done
  done <list
  calibrations
  texts
  cd "$here" || exit 1
  {
    printf '{"held": %d, "failed": %d, "integers_compared": %d, "runs": [\n' "$held" "$bad" "$compared"
    join "$rows"
    printf '], "calibrations": [\n'
    join "$work/calibrations"
    printf '], "texts": [\n'
    join "$work/texts"
    echo ']}'
  } >"$out/verify.json"
  finished verify "$([ "$bad" = 0 ] && [ "$held" -gt 0 ] && echo true || echo false)" "$held hold, $bad do not; $compared integers compared"
}

# calibrations compares what calibration and Gram statistics find on the GPU with what they find on the processor: the same bytes.
calibrations() {
  : >"$work/calibrations"
  sed -n 's/\.onnxruntime\.plan\.json / /p' list >"$work/calibrated"
  while read -r model data; do
    [[ $model =~ ${MODELS:-.} ]] || continue
    local preprocess equal=null why= samples=16 took=
    preprocess=none
    [ "$backend" = ptx ] && samples=4
    case $model in mobilenet*) preprocess=imagenet-inception ;; squeezenet*) preprocess=imagenet-caffe ;; esac
    for b in cpu "$backend"; do
      : >"$work/json" >"$work/json2"
      timeout -k 5 "$(left)" "$qwb" calibrate "$model.onnx" --data "$data" --samples $samples --preprocess $preprocess --platform onnxruntime --backend "$b" -o "by-$b.plan.json" \
        --json >"$work/json" 2>"$work/log" &&
        timeout -k 5 "$(left)" "$qwb" tune by-cpu.plan.json --data "$data" --samples $samples --shard 1/1 --backend "$b" -o "by-$b.grams" --json >"$work/json2" 2>"$work/log" ||
        why=$(tail -n 1 "$work/log")
      took+=$(printf ', "%s": {"calibrate_seconds": %s, "gram_seconds": %s}' "$b" "$(field "$work/json" data_seconds | grep . || echo null)" "$(field "$work/json2" seconds | grep . || echo null)")
    done
    if [ -z "$why" ]; then
      equal=true
      cmp -s by-cpu.stats "by-$backend.stats" && cmp -s by-cpu.grams "by-$backend.grams" || equal=false
    fi
    if [ $equal = true ]; then held=$((held + 1)); else bad=$((bad + 1)) && echo "verify: calibration of $model: equal $equal $why"; fi
    printf '{"model": "%s", "equal": %s%s, "error": %s}\n' "$model" $equal "$took" "$(text "$why")" >>"$work/calibrations"
    rm -f by-*
  done <"$work/calibrated"
}

# texts compares how likely a language model finds a text, on the GPU and on the processor: the same numbers.
texts() {
  : >"$work/texts"
  [ -e stories260K-q8.bin ] && [[ stories260K =~ ${MODELS:-.} ]] || return 0
  local equal=null why=
  if [ "$backend" = ptx ]; then # which is slow
    head -c 100 stories.txt >short.txt
    mv short.txt stories.txt
  fi
  for b in cpu "$backend"; do
    timeout -k 5 "$(left)" "$qwb" eval stories260K-q8.bin --text stories.txt --tokenizer tok512.bin --backend "$b" --json 2>"$work/log" | grep -v '"seconds"' >"$work/by-$b"
    grep -q '"perplexity"' "$work/by-$b" || why=$(tail -n 1 "$work/log")
  done
  if [ -z "$why" ]; then
    equal=true
    cmp -s "$work/by-cpu" "$work/by-$backend" || equal=false
  fi
  if [ $equal = true ]; then held=$((held + 1)); else bad=$((bad + 1)) && echo "verify: stories260K-q8.bin: equal $equal $why"; fi
  printf '{"model": "stories260K-q8.bin", "equal": %s, "error": %s}\n' $equal "$(text "$why")" >>"$work/texts"
}

# torch WHAT FILE leaves in $work/torch what torch_compare.py measured, as far as it came, where there is a python3 with torch.
torch() {
  rm -f "$work/torch"
  if ! command -v python3 >/dev/null || ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
    echo '{"missing": "no python3 with torch and a GPU here"}' >"$work/torch"
    return
  fi
  timeout -k 5 "$(left)" python3 "$here/torch_compare.py" "$1" --with "$2" -o "$work/torch" >"$work/torch.log" 2>&1 ||
    [ -e "$work/torch" ] || printf '{"failed": %s}' "$(tail -n 20 "$work/torch.log" | quote)" >"$work/torch"
}

stage_bench() {
  local stage=$1
  shift
  needs "$stage" "$qwb" || return
  timeout -k 5 $(($(left) * 2 / 3)) "$qwb" bench cuda --backend "$backend" --json "$@" >"$work/json" 2>"$work/log"
  rc=$?
  cp "$work/json" "$work/measured"
  # Again with the tiles that measuring finds: what the model of the device behind the default choice misses.
  local again=(--tune)
  [ "$stage" = networks ] || again+=(--only '^(gemm|conv)')
  timeout -k 5 $(($(left) / 3)) "$qwb" bench cuda --backend "$backend" --json "${again[@]}" "$@" >"$work/tuned" 2>>"$work/log" || [ -s "$work/tuned" ] ||
    printf '{"failed": %s}' "$(tail -n 1 "$work/log" | quote)" >"$work/tuned"
  torch "$stage" "$work/measured"
  {
    printf '{"rc": %d, "error": %s, "qwb": ' "$rc" "$(if [ "$rc" = 0 ]; then printf '""'; else tail -n 20 "$work/log" | quote; fi)"
    whole "$work/measured"
    printf ', "tuned": '
    whole "$work/tuned"
    printf ', "torch": '
    whole "$work/torch"
    printf ', "language": [\n'
    [ "$stage" = networks ] && language
    echo ']}'
  } >"$out/$stage.json"
  local failed
  failed=$(grep -c '^      "error":' "$work/measured")
  finished "$stage" "$([ "$rc" = 0 ] && [ "$failed" = 0 ] && echo true || echo false)" "$(grep -c '"share_of_peak":' "$work/measured") measured, $failed failed; $(tail -n 1 "$work/log" | head -c 200)"
}

# language prints what bench generate measures of language models with random weights.
language() {
  local shapes=(110M 1.1B) options=(--group-size 64) how=() first=1
  if [ "$backend" = ptx ]; then
    shapes=(15M) options=(--group-size 32) how=(--rounds 1 --span 1ms --prompt 4)
  fi
  for shape in "${shapes[@]}"; do
    if "$qwb" bench checkpoint --shape "$shape" "${options[@]}" -o "$work/language.bin" >"$work/log" 2>&1 &&
      timeout -k 5 "$(left)" "$qwb" bench generate "$work/language.bin" --backend "$backend" "${how[@]}" --json >"$work/json" 2>"$work/log"; then
      :
    else
      printf '{"failed": %s}' "$(tail -n 1 "$work/log" | quote)" >"$work/json"
    fi
    [ $first = 1 ] || echo ,
    first=0
    printf '{"shape": "%s", "measured": ' "$shape"
    whole "$work/json"
    echo '}'
    rm -f "$work/language.bin"
  done
}

stage_kernels() {
  if [ "$backend" = ptx ]; then stage_bench kernels --rounds 1; else stage_bench kernels; fi
}

stage_networks() {
  if [ "$backend" = ptx ]; then stage_bench networks --networks --rounds 1 --batches 1,2; else stage_bench networks --networks --rounds 15 --span 100ms; fi
}

machine() {
  {
    printf '{"date": "%s", "kernel": %s, "cpu": %s, "cores": %s, "nvidia_smi": ' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(uname -sr | quote)" \
      "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1 | quote)" "$(nproc)"
    if command -v nvidia-smi >/dev/null; then
      nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader 2>&1 | quote
    else
      printf '""'
    fi
    printf ', "qwb": '
    if [ -x "$qwb" ]; then "$qwb" version --json; fi >"$work/json" 2>/dev/null
    whole "$work/json"
    echo '}'
  } >"$out/machine.json"
}

case ${1:-all} in
  all) ;;
  build) stage_build; exit ;;
  tests | sanitize | verify | kernels | networks) stages=("$1") ;;
  *) usage; exit 2 ;;
esac

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
summary=() notes=()
unpack
machine
for stage in "${stages[@]}"; do
  began=$SECONDS
  # All stages together stay under 20 minutes: a stage gets what the ones before left, but no more than its own limit.
  deadline=$((SECONDS + limit))
  [ ${#stages[@]} = 1 ] || [ $deadline -le $((started + 1140)) ] || deadline=$((started + 1140))
  echo "== $stage"
  "stage_$stage"
done
if [ ${#stages[@]} -gt 1 ]; then
  printf '%s\n' "${summary[@]}" >"$work/rows"
  { echo '{"stages": ['; join "$work/rows"; echo ']}'; } >"$out/summary.json"
fi
printf '\n'
printf '%s\n' "${notes[@]}"
echo "results: $out"
case ${notes[*]} in *FAILED*) exit 1 ;; esac
