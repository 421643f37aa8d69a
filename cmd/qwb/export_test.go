package main

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph/onnx"
)

// Weights that do not fit into one message go to a file beside the model, which still computes the same.
func TestExportWithWeightsBesideTheModel(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	e := &env{stdout: io.Discard, stderr: io.Discard}
	for _, o := range []qwb.ExportOptions{{Out: "one.onnx"}, {Out: "two.onnx", ExternalAbove: 1}} {
		o.Platform = "onnxruntime"
		r, _, err := e.project("", "m.plan.json").Export(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, hexSum(read(t, o.Out)), r.SHA256)
	}
	_, err := os.Stat("two.onnx.data")
	require.NoError(t, err)
	one, _, err := onnx.Open("one.onnx")
	require.NoError(t, err)
	defer one.Close()
	two, _, err := onnx.Open("two.onnx")
	require.NoError(t, err)
	defer two.Close()
	require.Equal(t, one.Graph.NumNodes(), two.Graph.NumNodes())
	done(t, "run", "one.onnx", "--input", "x=data/00.npy", "--output", "a")
	done(t, "run", "two.onnx", "--input", "x=data/00.npy", "--output", "b")
	require.Equal(t, read(t, "a/y.npy"), read(t, "b/y.npy"))
}
