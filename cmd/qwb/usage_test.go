package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wrong flags and arguments are exit code 2, and nothing else is.
func TestWrongCommandLine(t *testing.T) {
	calibrated(t)
	for _, c := range []struct{ args, want string }{
		{"frobnicate", `unknown command "frobnicate"`},
		{"--frobnicate", `unknown flag: --frobnicate`},
		{"inspect", `inspect takes one model, not 0 arguments`},
		{"inspect a.onnx b.onnx", `inspect takes one model, not 2 arguments`},
		{"inspect m.onnx --observer kl", `inspect: unknown flag: --observer`},
		{"calibrate", `calibrate takes a model`},
		{"calibrate m.onnx", `calibrate needs --platform: trt_int8, onnxruntime`},
		{"calibrate m.onnx n.onnx --platform trt_int8", `calibrate takes one model, not 2 \(m\.onnx, n\.onnx\)`},
		{"calibrate m.onnx --platform abacus", `abacus.*trt_int8, onnxruntime`},
		{"calibrate m.onnx --platform trt_int8 --observer guess", `unknown observer "guess": one of auto, .*minmax`},
		{"calibrate m.onnx --platform trt_int8 --data data --merge m.stats", `--merge replaces --data`},
		{"calibrate m.onnx --platform trt_int8 -o m.json", `-o m\.json: the name of a plan ends in \.plan\.json`},
		{"calibrate m.onnx --platform trt_int8 --data data -o fresh.plan.json --samples -3", `--samples -3: must be 0 or more`},
		{"calibrate m.onnx --platform trt_int8 --data data --samples many", `calibrate: invalid argument "many" for "--samples"`},
		{"calibrate m.onnx --platform trt_int8 --data data --threads -1", `--threads -1: must be 0 or more`},
		{"calibrate m.onnx --platform trt_int8 --data data --seed -1", `calibrate: invalid argument "-1" for "--seed"`},
		{"analyze m.plan.json --mem 12", `--mem "12": not a size`},
		{"analyze m.plan.json --mem lots", `--mem "lots": not a size`},
		{"analyze m.plan.json --mem NaNG", `--mem "NaNG": not a size`},
		{"calibrate m.onnx --platform trt_int8 -o fresh.plan.json", `calibrate needs --data: there are no statistics`},
		{"preprocess m.onnx --data data", `preprocess needs --data and --dump DIR`},
		{"preprocess m.onnx --dump x", `preprocess needs --data and --dump DIR`},
		{"analyze a b", `analyze takes one plan or checkpoint, not 2`},
		{"analyze --layer-wise", `analyze: unknown flag: --layer-wise`},
		{"dispatch", `dispatch needs --fp32 SELECTORS, --auto or --reset`},
		{"dispatch --auto", `--auto needs a budget`},
		{"dispatch --max-nsr 0.1", `--max-nsr, --min-cosine and --max-drop need --auto`},
		{"dispatch --auto --max-nsr 0.1 --min-cosine 0.9", `one budget at a time`},
		{"dispatch --auto --max-nsr 0.1 --formats half", `--formats half: one of fp32, fp16`},
		{"dispatch --auto --max-nsr 0.1 --formats int4,int4", `--formats: int4 is there twice`},
		{"dispatch --auto --max-nsr 0.1 --minimize watts", `unknown cost "watts": macs, bytes, time`},
		{"dispatch --auto --max-nsr 0.1 --minimize time", `time is predicted from a device file: --device FILE`},
		{"dispatch --auto --max-nsr 0.1 --max-bytes 1M", `one budget at a time: on the error`},
		{"dispatch --auto --minimize macs --max-bytes 1M", `--minimize is for a budget on the error`},
		{"dispatch --auto --max-bytes much", `--max-bytes much: not an amount: for example 1\.5M`},
		{"dispatch --auto --max-bytes -1", `not an amount`},
		{"dispatch --auto --max-time 2", `--max-time 2: not a time: for example 2ms`},
		{"dispatch --fp32 conv1 --formats int4", `--formats needs --auto`},
		{"dispatch --auto --max-drop 1", `--max-drop needs --data and labels`},
		{"dispatch --auto --max-nsr NaN", `--max-nsr NaN`},
		{"dispatch --fp32 /[/", `selector "/\[/"`},
		{"dispatch --fp32 type:", `selector "type:" names no operator type`},
		{"serve --addr 0.0.0.0:0", `--addr 0\.0\.0\.0:0: qwb serve is for this machine only`},
		{"serve --addr 127.0.0.1", `--addr 127\.0\.0\.1: not an address`},
		{"serve m.onnx m.plan.json", `serve takes one plan or model, not 2`},
		{"serve --mem lots", `--mem "lots": not a size`},
		{"eval m.onnx", `eval of a model needs --data`},
		{"eval m.onnx --data data --mode sim", `--mode sim needs a plan; calibrate m\.onnx first`},
		{"eval m.plan.json --mode int4", `--mode int4: one of fp32, sim, int8`},
		{"eval m.plan.json --mode quick", `--mode quick: one of fp32, sim`},
		{"eval m.plan.json --max-drop 1", `--max-drop needs --mode sim or --mode int8`},
		{"export --platform abacus", `abacus`},
		{"export --batch 3 --platform trt_int8", `--batch is not for format onnx of a plan`},
		{"run m.onnx --input x=data/00.npy", `run needs --output DIR`},
		{"demo now", `demo takes no arguments, not 1`},
		{"version 2", `version takes no arguments, not 1`},
	} {
		fails(t, exitUsage, c.want, strings.Fields(c.args)...)
	}
}

// What a command line says right but cannot be done is exit code 1.
func TestCannotBeDone(t *testing.T) {
	calibrated(t)
	require.NoError(t, os.Mkdir("taken", 0o755))
	for _, c := range []struct{ args, want string }{
		{"export --platform onnxruntime", `m\.plan\.json is a plan for trt_int8; make one for onnxruntime first: ` +
			`qwb calibrate m\.onnx --platform onnxruntime`},
		{"export --platform trt_int8 -o none/out.onnx", `none/.*no such file or directory`},
		{"export --platform trt_int8 -o taken", `taken: .*`},
		{"calibrate m.onnx --data data --platform trt_int8 -o none/m.plan.json", `none/.*no such file or directory`},
		{"preprocess m.onnx --data data --dump m.onnx", `m\.onnx: not a directory`},
		{"run m.onnx --input x=data/00.npy --output m.onnx", `m\.onnx: not a directory`},
		{"dispatch --fp32 conv9", `selector "conv9" matches no node`},
		{"dispatch --fp32 type:Conv3", `selector "type:Conv3" matches no node`},
		{"eval m.plan.json --mode fp32", `4 of 4 samples have no label`},
		{"calibrate m.onnx --platform trt_int8 --data synthetic:0", `synthetic:0.*1 to`},
		{"calibrate m.onnx --platform trt_int8 --data synthetic", `synthetic:N`},
	} {
		fails(t, exitFailed, c.want, strings.Fields(c.args)...)
	}
	for _, args := range []string{"analyze --html none.html/report.html --png m.onnx", "analyze --png m.onnx"} { // what was found is printed
		r := invoke(strings.Fields(args)...)
		require.Equal(t, exitFailed, r.code, r.stderr)
		require.Regexp(t, `m\.onnx: not a directory`, r.lastLine())
		require.Contains(t, r.stdout, "whole network quantized: NSR")
	}
	fails(t, exitFailed, `permission denied|read-only file system|operation not permitted|no such file or directory`,
		"export", "--platform", "trt_int8", "-o", "/proc/out.onnx")
}

// A gate that is not held is exit code 3, and the result is printed all the same.
func TestChecksThatDoNotHold(t *testing.T) {
	calibrated(t)
	write(t, "labels.tsv", []byte("00.npy\t3\n01.npy\t1\n02.npy\t0\n03.npy\t9\n"))
	before := read(t, "m.plan.json")
	for _, args := range [][]string{{"--max-nsr", "-1"}, {"--min-cosine", "1.5"}, {"--max-drop", "-101"}} {
		fails(t, exitUsage, "out of range; it must be", append([]string{"dispatch", "--auto"}, args...)...)
	}
	r := invoke("dispatch", "--auto", "--json", "--max-drop", "1", "--data", "data", "--labels", "labels.tsv")
	require.Equal(t, exitCheck, r.code, r.stderr)
	require.Regexp(t, `^qwb: dispatch: the budget is not confirmed: 4 samples cannot decide a top1 drop of at most 1 pp: `+
		`.* It takes 277 samples if nothing changes, about 858 if 2 % of the answers do`, r.lastLine())
	require.Zero(t, r.object(t)["evaluations"], "said before anything is run")
	require.InDelta(t, 858, r.object(t)["needed"], 0)
	r = invoke("dispatch", "--auto", "--json", "--max-drop", "-100", "--data", "data", "--labels", "labels.tsv", "--force")
	require.Equal(t, exitCheck, r.code, r.stderr)
	require.Regexp(t, `^qwb: dispatch: the budget is not confirmed: .* FP32 everywhere only; the plan is unchanged`, r.lastLine())
	require.NotEmpty(t, r.object(t)["evaluations"])
	require.Equal(t, before, read(t, "m.plan.json"), "the plan stays as it was")
	done(t, "eval", "m.plan.json", "--mode", "sim", "--labels", "labels.tsv", "--max-drop", "100")
}

func TestHelp(t *testing.T) {
	inFolder(t)
	r := done(t, "--help")
	require.Empty(t, r.stderr)
	for _, c := range []string{"inspect", "preprocess", "calibrate", "analyze", "dispatch", "eval", "export", "run", "demo", "version"} {
		require.Regexp(t, `(?m)^  `+c+` +\S`, r.stdout)
		h := done(t, c, "--help")
		require.Contains(t, h.stdout, "qwb "+c)
		require.Empty(t, h.stderr)
		require.Equal(t, h.stdout, done(t, "help", c).stdout)
		for _, line := range strings.Split(h.stdout, "\n") {
			require.LessOrEqual(t, len(strings.SplitN(line, "   ", 2)[0]), 150, line)
		}
	}
	require.Empty(t, tree(t, "."))
	require.Regexp(t, `^qwb \d+\.\d+\.\d+ `, done(t, "version").stdout)
}
