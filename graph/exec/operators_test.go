package exec_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// TestMatchesOtherRuntimes holds operators against ONNX Runtime and ONNX's reference, in combinations of attributes that the ONNX
// vectors do not have: see testdata/operators.py.
func TestMatchesOtherRuntimes(t *testing.T) {
	for i, c := range runtimeCases(t, "testdata/operators.json.gz") {
		t.Run(fmt.Sprintf("%d-%s", i, c.Op), func(t *testing.T) {
			g, feeds := c.build(t, false)
			s, err := exec.NewPoisoned(g, exec.Options{Threads: 2})
			require.NoError(t, err)
			r := s.NewRunner()
			for range 2 { // the second run is planned
				got, err := r.Run(context.Background(), feeds, nil)
				require.NoError(t, err)
				for k, out := range c.Outputs {
					assert.NoError(t, near(got[k], out.tensor(t), 1e-3, 5e-6), "output %d, %v", k, c.Attributes)
				}
			}
		})
	}
}

// TestOperatorsInFloat64 compares operators that have no kernels of their own with their float32 form.
func TestOperatorsInFloat64(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range runtimeCases(t, "testdata/operators.json.gz") {
		double := 0
		for i, in := range c.Inputs {
			if in != nil && in.Type == "f32" {
				c.Inputs[i], double = widened(t, in), double+1
			}
		}
		if double == 0 || c.Op == "MelWeightMatrix" { // its output is float32 whatever the input
			continue
		}
		seen[c.Op] = true
		g, feeds := c.build(t, false)
		s, err := exec.New(g, exec.Options{})
		require.NoError(t, err, c.Op)
		got, err := s.NewRunner().Run(context.Background(), feeds, nil)
		require.NoError(t, err, c.Op)
		for k, out := range c.Outputs {
			if out.Type == "f32" {
				out = widened(t, out)
			}
			assert.NoError(t, near(got[k], out.tensor(t), 1e-3, 5e-6), "%s: output %d, %v", c.Op, k, c.Attributes)
		}
	}
	assert.Contains(t, seen, "Attention")
	assert.Contains(t, seen, "DeformConv")
}

// widened is r as float64.
func widened(t *testing.T, r *runtimeTensor) *runtimeTensor {
	out := &runtimeTensor{Type: "f64", Shape: r.Shape}
	for _, v := range r.tensor(t).F32() {
		out.Data = binary.LittleEndian.AppendUint64(out.Data, math.Float64bits(float64(v)))
	}
	return out
}

// TestBadShapesAndElements states inputs that no execution accepts.
func TestBadShapesAndElements(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"input x: f32[1,2,3,4]; const i: i64[1] = [9]; y = TensorScatter(x, x, i)", "write index 9 for an update of 3 in a cache of 3"},
		{"input x: f32[1,2,3,4]; const k: f32[1,3,3,4] = fill(1); y = Attention(x, k, k)", "2 heads of Q for 3 of K and V"},
		{"input x: f32[1,2,3,4]; const m: f32[5] = fill(1); y = Attention(x, x, x, m)", "mask f32[5] for scores f32[1,2,3,3]"},
		{"input x: f32[1,2,3,4]; const n: i64[1] = [4]; y = Attention(x, x, x, _, _, _, n)", "nonpad_kv_seqlen [4]"},
		{"input x: f32[1,2,3,4]; const p: f32[1,2,1,4] = fill(1); y = Attention(x, x, x, _, p)", "past_key and past_value belong together"},
		{"input x: f32[1,2,3,4]; const c: f32[9,2] = fill(1); const p: i64[1,3] = [0, 9, 0]; y = RotaryEmbedding(x, c, c, p)",
			"position 9 is outside of the 9"},
		{"input x: f32[1,1,2,2]; const g: f32[1,1,1,3] = fill(0); y = GridSample(x, g)", "does not fit"},
		{"input x: f32[1,1,0,2]; const g: f32[1,1,1,2] = fill(0); y = GridSample(x, g)", "nothing to sample"},
		{"input x: f32[1,1,2,2]; const r: f32[1,4] = [0, 0, 1, 1]; const b: i64[1] = [1]; y = RoiAlign(x, r, b)", "region 0 is in sample 1 of 1"},
		{"input x: f32[1,1,2,2]; const r: f32[1,4] = [0, 0, 1e30, 1e30]; const b: i64[1] = [0]; y = RoiAlign(x, r, b)", "samples"},
		{"input x: f32[1,1,2,2]; const r: f32[1,5] = [0, 0, 0, 1e30, 1]; y = MaxRoiPool(x, r) {pooled_shape=[1, 1]}", "region 0: corners"},
		{"input x: f32[1,1,2,2]; const w: f32[1,1,1,1] = fill(1); const o: f32[1,4,2,2] = fill(0); y = DeformConv(x, w, o)",
			"offset f32[1,4,2,2]"},
		{"input x: f32[1,4,2]; const i: i64[1] = [3]; const b: i64[1] = [2]; y = Col2Im(x, i, b) {strides=[2]}", "for windows [1] of blocks [2]"},
		{"input x: f32[1,1,1,1]; const i: i64[1,1,1,1] = [4]; y = MaxUnpool(x, i) {kernel_shape=[2, 2]}", "index 4 is outside of [1 1 2 2]"},
		{"input x: f32[1,4,3]; y = DFT(x)", "neither 1 (real) nor 2 (complex)"},
		{"input x: f32[1,4,1]; const n: i64[] = -1; y = DFT(x, n)", "length -1"},
		{"input x: f32[1,4,1]; const n: i64[] = 1; const w: f32[2] = fill(1); const l: i64[] = 3; y = STFT(x, n, w, l)", "and a window of 2"},
		{"input x: i64[]; const h: f32[] = 9e5; const l: f32[] = 0; const n: i64[] = 8; y = MelWeightMatrix(n, n, n, l, h)",
			"is beyond the spectrum"},
	} {
		g := graphtest.Parse(t, "opset 24; "+c.text+"; output y")
		shape, _ := g.Value(g.Inputs[0]).Shape.Ints()
		feeds := map[string]*tensor.Tensor{"x": tensor.New(g.Value(g.Inputs[0]).DType, shape...)}
		s, err := exec.New(g, exec.Options{})
		if err == nil {
			_, err = s.NewRunner().Run(context.Background(), feeds, nil)
		}
		assert.ErrorContains(t, err, c.want, c.text)
	}
}

// A signal of [batch, length] is a real one, as in ONNX Runtime.
func TestSTFTOfRankTwo(t *testing.T) {
	of := func(shape string) []float32 {
		g := graphtest.Parse(t, "opset 17; input x: f32["+shape+"]; const n: i64[] = 2; const w: f32[4] = [1, 2, 3, 4]; "+
			"y = STFT(x, n, w); output y")
		sizes, _ := g.Value(g.Inputs[0]).Shape.Ints()
		x := tensor.New(tensor.Float32, sizes...)
		for i := range x.F32() {
			x.F32()[i] = float32(i*i%7) - 2
		}
		return run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": x}, nil)[0].F32()
	}
	require.Len(t, of("2,9"), 2*3*3*2)
	require.Equal(t, of("2,9,1"), of("2,9"))
}
