package calib_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// The first operator that makes infinite numbers of finite ones is found, whatever hides them; masks are none.
func TestMadeInfinite(t *testing.T) {
	for _, c := range []struct{ name, text, node string }{
		{"a quotient", "q = Div(one, x) \"quotient\"\nm = Clip(q, low, one) \"limit\"", "quotient"},
		{"a quotient by a constant", "q = Div(one, x) \"quotient\"\nm = Sigmoid(q) \"limit\"", "quotient"},
		{"a logarithm", "q = Log(x) \"log\"\nm = Max(q, low) \"limit\"", "log"},
		{"a reciprocal", "q = Reciprocal(x) \"rec\"\nr = Add(q, one) \"add\"\nm = Tanh(r) \"limit\"", "rec"},
		{"a power", "q = Pow(x, low) \"power\"\nm = Min(q, one) \"limit\"", "power"},
		{"an overflow", "s = Mul(x, large) \"s\"\nq = Exp(s) \"exp\"\nm = Min(q, one) \"limit\"", "exp"},
		{"a choice", "b = Greater(x, zero) \"b\"\nq = Div(one, x) \"quotient\"\nm = Where(b, q, x) \"limit\"", "quotient"},
		{"a logarithm as mask", "q = Log(x) \"log\"\nr = Add(q, x) \"add\"\nm = Softmax(r) \"limit\"", ""},
		{"a maximum", "q = Log(x) \"log\"\nm = ReduceMax(q) \"limit\"", ""},
		{"a constant", "b = Greater(x, zero) \"b\"\nq = Where(b, x, inf) \"choice\"\nm = Clip(q, low, one) \"limit\"", ""},
		{"finite numbers", "m = Exp(x) \"exp\"", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graphtest.Parse(t, "opset 17\ninput x: f32[1,4]\nconst one: f32[] = [1]\nconst zero: f32[] = [0]\nconst low: f32[] = [-2]\n"+
				"const large: f32[] = [1000]\nconst inf: f32[] = [inf]\n"+c.text+"\noutput m\n")
			var samples []*exec.Sample
			for i := range 3 {
				samples = append(samples, &exec.Sample{Feeds: map[string]*tensor.Tensor{
					"x": tensor.FromF32([]float32{0, 1, 2, float32(i)}, 1, 4)}, Hash: [32]byte{byte(i)}, Label: -1})
			}
			for _, quick := range []bool{true, false} {
				stats, err := calib.Run(context.Background(), g, &exec.InMemory{Samples: samples}, calib.Config{MinMaxOnly: quick})
				require.NoError(t, err)
				found := stats.MadeInfinite(g)
				if c.node == "" {
					require.Nil(t, found)
					continue
				}
				require.NotNil(t, found)
				require.Equal(t, c.node, g.Node(found.Node).Name)
				require.EqualValues(t, 12, found.Of)
				require.Contains(t, found.Text(g), " of 12 values of \"q\" are ")
				require.NotEmpty(t, found.Cure)
			}
		})
	}
}
