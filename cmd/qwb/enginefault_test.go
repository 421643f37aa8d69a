package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const attention = `
opset 17
input x: f32[1,3,8,8]
const w: f32[8,3,3,3] = normal(seed=1)
c: f32[1,8,8,8] = Conv(x, w) {pads=[1, 1, 1, 1]} "conv"
s: f32[1,8,8,8] = Softmax(c) {axis=1} "soft"
output s: f32[1,8,8,8]
`

// A recording that differs where the engine has a known fault: the file is right, the engine is wrong. Elsewhere no fault is named.
func TestTheEngineIsWrong(t *testing.T) {
	workplace(t)
	saveModel(t, "m.onnx", attention)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--border-cost", "0")
	done(t, "set", "*", "activations=int8-asym-tensor")
	done(t, "set", "soft", "domain=int")
	dumpOf(t, "dump")
	require.NotContains(t, invoke("verify", "--against", "dump").stdout, "the engine is wrong")
	for file, wrong := range map[string]bool{"1.npy": false, "2.npy": true} {
		name := filepath.Join("dump", file)
		b := read(t, name)
		damaged := append([]byte{}, b...)
		damaged[len(b)-1] ^= 16
		write(t, name, damaged)
		r := invoke("verify", "--against", "dump", "--json")
		require.Equal(t, exitCheck, r.code, r.stderr)
		o := r.object(t)
		require.Equal(t, "different", o["verdict"])
		text := invoke("verify", "--against", "dump").stdout
		write(t, name, b)
		if !wrong {
			require.NotContains(t, o, "engine_faults", "the convolution, too, meets no known fault")
			continue
		}
		row := parts(t, o, "engine_faults[]")[0]
		require.Equal(t, "ort-softmax-int8", row["name"])
		require.Equal(t, []any{"soft"}, row["nodes"])
		require.Contains(t, text, "the file is right, the engine is wrong: ort-softmax-int8: soft: ONNX Runtime (before 1.29)")
	}

	done(t, "verify")
	done(t, "export", "--platform", "onnxruntime", "-o", "out.onnx")
	done(t, "doctor", "out.onnx", "--platform", "onnxruntime")
	r := invoke("doctor", "out.onnx", "--platform", "onnxruntime", "--engine-version", "1.28.0", "--sarif", "f.sarif")
	require.Equal(t, exitCheck, r.code)
	require.Contains(t, r.lastLine(), "the file is right, and the engine is known to be wrong: 1 fault")
	require.Contains(t, r.stdout, "soft: ONNX Runtime (before 1.29): a Softmax on integers that writes int8")
	require.Contains(t, string(read(t, "f.sarif")), "ort-softmax-int8")
	done(t, "doctor", "out.onnx", "--platform", "onnxruntime", "--engine-version", "1.29")
	require.Contains(t, done(t, "doctor", "--platform", "onnxruntime").stdout, "ort-softmax-int8")
	require.NotContains(t, done(t, "doctor", "--platform", "onnxruntime", "--engine-version", "1.31").stdout, "ort-softmax-int8")
	fails(t, exitUsage, "numbers between dots", "doctor", "--platform", "onnxruntime", "--engine-version", "newest")
}
