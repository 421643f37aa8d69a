package demo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

func TestEmbeddedModelReadsFreshPictures(t *testing.T) {
	require.LessOrEqual(t, len(demo.Model), 2<<20)
	m, warnings, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	require.Empty(t, warnings)
	ops := map[string]bool{}
	for _, id := range m.Graph.Nodes() {
		ops[m.Graph.Node(id).Op] = true
	}
	for _, op := range []string{"Conv", "BatchNormalization", "Clip", "HardSwish", "Add", "Concat", "MaxPool", "GlobalAveragePool", "Gemm"} {
		require.True(t, ops[op], op)
	}
	s, err := exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
	runner := s.NewRunner()
	camera := demo.NewCamera()
	const n = 600
	right := 0
	for i := range n {
		img, class := camera.Shot(demo.Evaluation, 77, i) // a seed nobody trained with
		out, err := runner.Run(context.Background(), map[string]*tensor.Tensor{"image": tensor.FromF32(img, 1, 1, demo.Size, demo.Size)}, nil)
		require.NoError(t, err)
		scores := out[0].F32()
		best := 0
		for c := range scores {
			if scores[c] > scores[best] {
				best = c
			}
		}
		if best == class {
			right++
		}
	}
	t.Logf("%d of %d right", right, n)
	require.Greater(t, right, n*95/100)
}

// Pictures are a function of series, seed and number alone.
func TestPicturesAreStable(t *testing.T) {
	sum := func(series demo.Series, seed uint64, numbers ...int) string {
		camera := demo.NewCamera()
		h := sha256.New()
		for _, i := range numbers {
			img, class := camera.Shot(series, seed, i)
			require.Len(t, img, demo.Size*demo.Size)
			require.Less(t, class, len(demo.Alphabet))
			for _, v := range img {
				require.GreaterOrEqual(t, v, float32(0))
				require.False(t, math.IsNaN(float64(v)) || v > 4)
			}
			require.NoError(t, binary.Write(h, binary.LittleEndian, uint32(class)))
			require.NoError(t, binary.Write(h, binary.LittleEndian, img))
		}
		return hex.EncodeToString(h.Sum(nil)[:8])
	}
	a := sum(demo.Training, 1, 0, 1, 2)
	require.Equal(t, a, sum(demo.Training, 1, 0, 1, 2))
	require.NotEqual(t, a, sum(demo.HeldOut, 1, 0, 1, 2))
	require.NotEqual(t, a, sum(demo.Training, 2, 0, 1, 2))
	require.NotEqual(t, a, sum(demo.Training, 1, 1, 2, 3))
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors contract multiplications and additions: the last bit may differ")
	}
	require.Equal(t, "d5b6e7a647e6f9fa", sum(demo.Evaluation, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 999))
}
