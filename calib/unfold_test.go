package calib

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
)

// The product of rows and weights is what the operator computes, for both layouts of its input.
func TestUnfoldIsTheOperator(t *testing.T) {
	for _, op := range []string{
		"f32[2,4,9,11]; f32[6,4,3,3]; Conv(x, w) {pads=[1,1,1,1]}",
		"f32[1,6,9,11]; f32[6,1,3,5]; Conv(x, w) {pads=[2,1,0,3], strides=[2,1], group=6}",
		"f32[1,8,7,7]; f32[4,4,2,3]; Conv(x, w) {dilations=[1,2], pads=[0,2,1,2], group=2}",
		"f32[1,40,5,6]; f32[4,40,1,1]; Conv(x, w) {strides=[2,2]}",
		"f32[1,3,7]; f32[4,3,3]; Conv(x, w) {auto_pad=\"SAME_LOWER\", strides=[2]}",
		"f32[1,2,4,5,6]; f32[3,2,2,3,2]; Conv(x, w) {pads=[1,0,1,0,1,0]}",
		"f32[2,4,5,6]; f32[4,3,3,2]; ConvTranspose(x, w) {strides=[2,3], pads=[1,0,1,1]}",
		"f32[1,4,5,6]; f32[4,2,3,3]; ConvTranspose(x, w) {strides=[2,2], group=2, dilations=[2,1], output_padding=[1,1], pads=[1,2,0,0]}",
		"f32[1,4,5]; f32[4,3,2]; ConvTranspose(x, w) {strides=[3], output_shape=[18]}",
		"f32[5,7]; f32[7,3]; Gemm(x, w)",
		"f32[7,5]; f32[3,7]; Gemm(x, w) {transA=1, transB=1}",
		"f32[2,3,33]; f32[33,5]; MatMul(x, w)",
		"f32[2,3,4,9]; f32[9,5]; MatMul(x, w)",
	} {
		var x, w, call string
		parts := splitThree(op)
		x, w, call = parts[0], parts[1], parts[2]
		g := graphtest.Parse(t, fmt.Sprintf("opset 13\ninput x: %s\nconst w: %s = normal(seed=3)\ny = %s \"op\"\noutput y\n", x, w, call))
		id, _ := g.LookupNode("op")
		in := graphtest.Normal(7, shapeOf(t, x)...)
		session, err := exec.New(g, exec.Options{})
		require.NoError(t, err, op)
		got, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": in}, nil)
		require.NoError(t, err, op)
		want := got[0].ToRowMajor()

		u, err := NewUnfold(g, id)
		require.NoError(t, err, op)
		layouts := []*tensor.Tensor{in}
		if len(in.Shape) > 2 {
			layouts = append(layouts, in.ToChannelsLast())
		}
		weight := g.Const(g.Node(id).Inputs[1])
		for _, in := range layouts {
			f := qmath.Fixed{Step: 1.0 / 4096, Limit: qmath.MaxFixed}
			rows, err := u.Rows(in, f, nil)
			require.NoError(t, err, op)
			require.True(t, rows.Finite)
			require.Zero(t, rows.Limited)
			channels := want.Len() / len(rows.Base)
			inner := 1 // of the output: rows run over its other axes
			if n := g.Node(id).Op; n == "Conv" || n == "ConvTranspose" {
				inner = tensor.Count(want.Shape[2:])
			}
			for r, base := range rows.Base {
				for o := range channels {
					group := o / (channels / u.Groups)
					var sum float64
					for k := range u.K {
						sum += float64(rows.Codes[base+rows.Offset[group*u.K+k]]) * f.Step * weightAt(g.Node(id).Op, g.Node(id).AttrInt("transB", 0) != 0,
							weight, u, channels, group, o, k)
					}
					at := (r/inner*channels+o)*inner + r%inner
					require.InDelta(t, want.F32()[at], sum, 1e-3*math.Sqrt(float64(u.K)), "%s, %v: row %d, channel %d", op, in.Layout, r, o)
				}
			}
		}
	}
}

// weightAt is element k of the row of output o, as the operator's definition has it.
func weightAt(op string, transB bool, w *tensor.Tensor, u *Unfold, channels, group, o, k int) float64 {
	at := o*u.K + k
	switch {
	case op == "ConvTranspose":
		taps, per := tensor.Count(w.Shape[2:]), channels/u.Groups
		at = ((group*u.K/taps+k/taps)*per+o%per)*taps + k%taps
	case op != "Conv" && !transB:
		at = k*channels + o
	}
	return float64(w.F32()[at])
}

func splitThree(s string) (out []string) {
	for range 2 {
		for i := range s {
			if s[i] == ';' {
				out, s = append(out, s[:i]), s[i+2:]
				break
			}
		}
	}
	return append(out, s)
}

func shapeOf(t *testing.T, s string) (shape []int) {
	var n int
	for _, c := range s[len("f32["):] {
		if c == ',' || c == ']' {
			shape, n = append(shape, n), 0
			continue
		}
		require.True(t, c >= '0' && c <= '9')
		n = 10*n + int(c-'0')
	}
	return shape
}

func TestUnfoldRefuses(t *testing.T) {
	g := graphtest.Parse(t, `opset 13
input x: f32[1,4,6,6]
const w: f32[2,4,3,3] = normal(seed=3)
const s: f32[1,4,6,5] = normal(seed=3)
a = Conv(x, w) "conv"
b = MatMul(x, s) "stack"
c = Mul(x, x) "mul"
output a, b, c
`)
	find := func(name string) *Unfold {
		id, _ := g.LookupNode(name)
		u, err := NewUnfold(g, id)
		require.NoError(t, err)
		return u
	}
	for _, name := range []string{"stack", "mul"} {
		id, _ := g.LookupNode(name)
		_, err := NewUnfold(g, id)
		require.ErrorContains(t, err, name)
	}
	f := qmath.Fixed{Step: 1, Limit: 1}
	_, err := find("conv").Rows(graphtest.Normal(1, 1, 5, 6, 6), f, nil)
	require.ErrorContains(t, err, `"conv" (Conv)`)
	_, err = find("conv").Rows(tensor.New(tensor.Int8, 1, 4, 6, 6), f, nil)
	require.ErrorContains(t, err, "i8")
}
