package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
)

// With --json the line before the last on standard error is the error as data, and the exit code follows from its kind.
func TestFault(t *testing.T) {
	calibrated(t)
	done(t, "dispatch", "--fp32", "/./") // then there is nothing to verify
	for _, c := range []struct {
		args string
		code int
		want qwb.Fault
	}{
		{"inspect none.onnx --json", exitFailed, qwb.Fault{Kind: qwb.KindInput, Stage: "load", File: "none.onnx"}},
		{"calibrate m.onnx --platform abacus --json", exitUsage, qwb.Fault{Kind: qwb.KindUsage}},
		{"set no-such-node domain=fp32 --json", exitFailed, qwb.Fault{Kind: qwb.KindDecision}},
		{"export --platform trt_int8 -o q.onnx --json", exitCheck, qwb.Fault{Kind: qwb.KindCheck}},
	} {
		r := invoke(strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, "%s: %s", c.args, r.stderr)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		var got struct{ Error qwb.Fault }
		require.Greater(t, len(lines), 1, c.args)
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-2]), &got), c.args)
		require.Equal(t, "qwb: "+got.Error.Message, lines[len(lines)-1], c.args)
		c.want.Message = got.Error.Message
		require.Equal(t, c.want, got.Error, c.args)
	}
	r := invoke("inspect", "none.onnx")
	require.NotContains(t, r.stderr, "{", "without --json there is the line alone")
}
