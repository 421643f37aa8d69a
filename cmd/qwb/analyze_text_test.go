package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnalyzeText(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte("a cab\nabba, abracadabra\nthe second half of this line is beyond the context of the model\n"))
	args := []string{"analyze", "m.bin", "--layerwise", "--text", "t.txt", "--group-size", "8"}
	r := done(t, append(args, "--html", "r.html")...)
	require.Contains(t, r.stdout, "down of layer 1")
	require.Contains(t, r.stderr, "of 1 of 3 sequences only the first 40 tokens were run")
	page := string(read(t, "r.html"))
	require.Contains(t, page, "down of layer 1")
	require.NotRegexp(t, regexp.MustCompile(`(src|href)="http`), page)

	o := done(t, append(args, "--json")...).object(t)
	require.Len(t, o["layerwise"], 1+2*7)
	for _, m := range parts(t, o, "layerwise[]") {
		for _, k := range []string{"node", "op", "nsr", "mse", "cosine", "kl", "kl_error", "nll_change", "nll_change_error", "flips", "flip_rate",
			"parameters", "local", "clip", "round", "activation", "top5_agreement"} {
			require.NotNil(t, m[k], k)
		}
	}
	require.EqualValues(t, 14, o["forwards"])
	require.Contains(t, done(t, append(args, "--kv-cache", "int8")...).stdout, "values of layer 1")
	whole := evalText(t, "--group-size", "8")
	require.Equal(t, whole["kl"], o["whole"].(map[string]any)["kl"], "all matrices together are the quantized model")
	require.EqualValues(t, 2, done(t, append(args, "--samples", "2", "--json")...).object(t)["samples"])

	done(t, "export", "m.bin", "--format", "q80", "-o", "q.bin")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "needs --text", []string{"analyze", "m.bin", "--group-size", "8"}},
		{exitUsage, "how to quantize", []string{"analyze", "m.bin", "--text", "t.txt"}},
		{exitUsage, "--graphwise is not for a checkpoint", append(args, "--graphwise")},
		{exitUsage, "--bits is for a checkpoint", []string{"analyze", "m.plan.json", "--bits", "8"}},
		{exitFailed, "is already quantized", []string{"analyze", "q.bin", "--text", "t.txt", "--bits", "4"}},
		{exitFailed, "no-such.txt", []string{"analyze", "m.bin", "--text", "no-such.txt", "--bits", "4"}},
	} {
		fails(t, c.code, c.want, c.args...)
	}
}
