package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

// Ranges of other tools are used where they are named, are shown beside our own, and are never tried by automatic choice.
func TestPeers(t *testing.T) {
	calibrated(t)
	scales := func(observer string) []string {
		done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", observer)
		return regexp.MustCompile(`"scale": ?[^,}]*`).FindAllString(string(read(t, "m.plan.json")), -1)
	}
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "auto")
	require.NotRegexp(t, `"method": *"\w+/`, string(read(t, "m.plan.json")))
	require.Equal(t, scales("onnxruntime/minmax"), scales("onnxruntime/entropy"), "the one threshold that it tries is that of minmax")
	require.NotEqual(t, scales("onnxruntime/minmax"), scales("onnxruntime/entropy(2048)"))
	done(t, "set", "conv1:in0", "observer=ppq/kl")
	require.Contains(t, done(t, "plan", "log").stdout, "ppq/kl")

	for _, flags := range [][]string{{"--peers"}, nil} {
		var r struct {
			Statistical []struct {
				Kind       string
				Thresholds []analysis.Threshold
			}
		}
		require.NoError(t, json.Unmarshal([]byte(done(t, append([]string{"analyze", "--statistical", "--json", "--samples", "2"},
			flags...)...).stdout), &r))
		for _, s := range r.Statistical {
			methods := map[string]bool{}
			for _, th := range s.Thresholds {
				methods[th.Method] = true
			}
			require.Equal(t, len(s.Thresholds) > 0 && flags != nil, methods["tensorrt/entropy"] && methods["ppq/kl"] &&
				methods["onnxruntime/percentile"])
		}
		require.NotEmpty(t, r.Statistical)
	}
	fails(t, exitUsage, "unknown observer", "calibrate", "m.onnx", "--platform", "trt_int8", "--observer", "acme/none")
	fails(t, exitFailed, "this method takes none", "calibrate", "m.onnx", "--platform", "trt_int8", "--observer", "ppq/kl(3)")
}
