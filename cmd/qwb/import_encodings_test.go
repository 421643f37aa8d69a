package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A float model and its encodings are the plan that they were written of, in every version of the file.
func TestImportOfEncodings(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "aimet", "--border-cost", "0")
	done(t, "verify")
	for _, version := range []string{"0.6.1", "1.0.0", "2.0.0", "2.1.0"} {
		done(t, "export", "m.plan.json", "--platform", "aimet", "--encodings", version, "-o", "e.onnx")
		done(t, "import", "e.onnx", "--encodings", "e.encodings", "-o", "back.plan.json")
		text := done(t, "diff", "m.plan.json", "back.plan.json").stdout
		require.Contains(t, text, "Different: 0 domains, 0 states, 0 schemes, 0 scales, 0 zero points, 0 of", version)
		require.Contains(t, done(t, "plan", "show", "back.plan.json").stdout, "aimet")
	}
	b := string(read(t, "e.encodings"))
	write(t, "odd.encodings", []byte(strings.Replace(b, `"name": "x"`, `"name": "nothing"`, 1)))
	r := done(t, "import", "e.onnx", "--encodings", "odd.encodings", "-o", "odd.plan.json", "--platform", "qnn")
	require.Contains(t, r.stderr, `1 encoding of no tensor of e.onnx, first "nothing"`)
	write(t, "bad.encodings", []byte(`{"version": "3"}`))
	fails(t, exitFailed, `bad.encodings: encodings of version "3"`, "import", "e.onnx", "--encodings", "bad.encodings", "-o", "bad.plan.json")
	fails(t, exitUsage, "quantized already", "import", "back.qdq.onnx", "--encodings", "e.encodings", "-o", "bad.plan.json")
	require.NotContains(t, tree(t, "."), "bad.plan.json")
}
