package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// copying is a program for --op that gives back its first input, in the language of the shell.
const copying = `#!/bin/sh
while read -r line; do
	in=$(echo "$line" | sed 's/.*"inputs":\["\([^"]*\)".*/\1/')
	out=$(echo "$line" | sed 's/.*"outputs":\["\([^"]*\)".*/\1/')
	case "$line" in *'"node":"mine"'*'"gain":2.5'*) cp "$in" "$out" ;; esac
	echo '{}'
done
`

// TestOperatorsByCommand: an operator that qwb does not know is computed by the program of --op, and by nothing else; without one it is
// carried.
func TestOperatorsByCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	inFolder(t)
	text := func(op string) string {
		return `graph own
opset 17
opset acme 1
input x: f32[1,3,8,8]
const w: f32[16,3,3,3] = normal(seed=1, std=0.3)
const v: f32[4,16,3,3] = normal(seed=2, std=0.1)
c = Conv(x, w) {pads=[1,1,1,1]}
r = Relu(c)
` + op + `
y = Conv(s, v) {pads=[1,1,1,1]}
output y: f32[1,4,8,8]
`
	}
	saveModel(t, "own.onnx", text(`s: f32[1,16,8,8] = acme::Mine(r) {gain=2.5} "mine"`))
	saveModel(t, "plain.onnx", text(`s = Identity(r)`))
	saveInputs(t, "data", 1, 3, 1, 3, 8, 8)
	write(t, "copy.sh", []byte(copying))
	op := []string{"--op", "acme::Mine=sh copy.sh"}
	run := func(args ...string) result { return done(t, append(args, op...)...) }

	fails(t, exitFailed, `cannot be executed: Mine \(acme 1.*unknown; give a program: --op acme::Mine=COMMAND \(docs/operators.md\)`,
		"calibrate", "own.onnx", "--data", "data", "--platform", "trt_int8")
	done(t, "inspect", "own.onnx")
	done(t, "run", "plain.onnx", "--input", "x=data/00.npy", "-o", "plain")
	run("run", "own.onnx", "--input", "x=data/00.npy", "-o", "own")
	require.Equal(t, array(t, "plain/y.npy"), array(t, "own/y.npy"))
	run("calibrate", "own.onnx", "--data", "data", "--platform", "trt_int8")
	run("set", "own.plan.json", "type:Conv", "domain=int")
	v := run("verify", "own.plan.json", "--data", "data", "--json").object(t)
	require.Contains(t, []any{"equal", "ties"}, v["verdict"])
	require.Positive(t, v["integers_compared"])
	run("export", "own.plan.json", "--platform", "trt_int8", "-o", "q.onnx")
	require.Contains(t, string(read(t, "q.onnx")), "Mine")
	// Nothing of the quantized model is run by import: the operator is carried, in float.
	o := done(t, "import", "q.onnx", "-o", "back.plan.json", "--json").object(t)
	require.EqualValues(t, 3, o["integer"]) // Conv, Relu, Conv
	done(t, "export", "back.plan.json", "--platform", o["platform"].(string), "--unverified", "-o", "again.onnx")

	for command, want := range map[string]string{
		"exit 4":                       "ended without an answer: exit status 4",
		"cat":                          "answered",
		"read -r line; echo '{}'; cat": "output 0 was not written",
		`read -r line; echo '{"error":"no weights"}'; cat`: "no weights",
	} {
		r := fails(t, exitFailed, `acme::Mine=.*`+want, "run", "own.onnx", "--input", "x=data/00.npy", "-o", "none", "--op",
			"acme::Mine="+command)
		require.Contains(t, r.lastLine(), `node "mine"`)
	}
	for range 20 { // the program may be gone before it is asked
		fails(t, exitFailed, "no weights", "run", "own.onnx", "--input", "x=data/00.npy", "-o", "none", "--op",
			`acme::Mine=exec <&-; echo '{"error":"no weights"}'`)
	}
	fails(t, exitFailed, "the time limit of --timeout was reached", "run", "own.onnx", "--input", "x=data/00.npy", "-o", "none", "--timeout",
		"300ms", "--op", "acme::Mine=exec sleep 20")
	for _, bad := range []string{"Mine=x", "acme::Mine", "acme::=x", "::Mine=x", "acme::Mine= "} {
		fails(t, exitUsage, "not DOMAIN::TYPE=COMMAND", "inspect", "own.onnx", "--op", bad)
	}
	fails(t, exitUsage, "stands twice", append([]string{"inspect", "own.onnx", "--op", "acme::Mine=x"}, op...)...)
	fails(t, exitUsage, "is built in", "inspect", "own.onnx", "--op", "com.microsoft::Gelu=x")
}
