package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// branches are networks whose products read one value: attention, the branches of an Inception block, a projected shortcut.
var branches = map[string]string{
	"attention": `
input x: f32[1,37,24]
const wq: f32[24,24] = normal(seed=1, std=0.3)
const wk: f32[24,24] = normal(seed=2, std=0.3)
const wv: f32[24,40] = normal(seed=3, std=0.3)
const bq: f32[24] = normal(4)
q0: f32[1,37,24] = MatMul(x, wq) "q"
q: f32[1,37,24] = Add(q0, bq) "qbias"
k: f32[1,37,24] = MatMul(x, wk) "k"
kt: f32[1,24,37] = Transpose(k) {perm=[0,2,1]} "kt"
s: f32[1,37,37] = MatMul(q, kt) "scores"
p: f32[1,37,37] = Softmax(s) {axis=-1} "soft"
v: f32[1,37,40] = MatMul(x, wv) "v"
y: f32[1,37,40] = MatMul(p, v) "mix"
output y
`,
	"inception": `
input x: f32[2,16,9,9]
const w1: f32[24,16,1,1] = normal(seed=1, std=0.3)
const w2: f32[8,16,1,1] = normal(seed=2, std=0.3)
const w3: f32[12,8,3,3] = normal(seed=3, std=0.3)
const w4: f32[20,16,3,3] = normal(seed=4, std=0.3)
const b: f32[24] = normal(5)
a: f32[2,24,9,9] = Conv(x, w1, b) "one"
ra: f32[2,24,9,9] = Relu(a) "onerelu"
c: f32[2,8,9,9] = Conv(x, w2) "reduce"
rc: f32[2,8,9,9] = Relu(c) "reducerelu"
d: f32[2,12,9,9] = Conv(rc, w3) {pads=[1,1,1,1]} "three"
e: f32[2,20,9,9] = Conv(x, w4) {pads=[1,1,1,1]} "wide"
y: f32[2,56,9,9] = Concat(ra, d, e) {axis=1} "concat"
output y
`,
	"sums": `
input x: f32[2,16,9,9]
const w1: f32[24,16,1,1] = normal(seed=1, std=0.3)
const w2: f32[24,16,1,1] = normal(seed=2, std=0.3)
const w3: f32[24,16,3,3] = normal(seed=3, std=0.3)
a: f32[2,24,9,9] = Conv(x, w1) "one"
b: f32[2,24,9,9] = Conv(x, w2) "two"
c: f32[2,24,9,9] = Conv(x, w3) {pads=[1,1,1,1]} "three"
s: f32[2,24,9,9] = Add(a, b) "add"
y: f32[2,24,9,9] = Add(c, s) "addall"
output y
`,
	"shortcut": `
input x: f32[1,16,10,10]
const w1: f32[8,16,1,1] = normal(seed=1, std=0.3)
const w2: f32[32,8,3,3] = normal(seed=2, std=0.3)
const ws: f32[32,16,1,1] = normal(seed=3, std=0.3)
a: f32[1,8,10,10] = Conv(x, w1) "narrow"
ra: f32[1,8,10,10] = Relu(a) "narrowrelu"
c: f32[1,32,5,5] = Conv(ra, w2) {pads=[1,1,1,1], strides=[2,2]} "middle"
s: f32[1,32,5,5] = Conv(x, ws) {strides=[2,2]} "project"
t: f32[1,32,5,5] = Add(c, s) "add"
y: f32[1,32,5,5] = Relu(t) "relu"
output y
`,
}

// Products of one input are computed as one unless somebody looks at one of them, and no bit depends on that.
func TestProductsOfOneInput(t *testing.T) {
	for name, text := range branches {
		for _, threads := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				g := graphtest.Parse(t, text)
				s, err := prepare(g, Options{Threads: threads}, true)
				require.NoError(t, err)
				together := 0
				for i := range s.steps {
					if s.steps[i].more {
						together++
					}
				}
				require.Positive(t, together, "no steps share an input")
				shape, _ := g.Value(g.Inputs[0]).Shape.Ints()
				feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(9, shape...)}
				ctx := context.Background()
				all, err := s.NewRunner().RunAll(ctx, feeds, nil, nil) // keeps everything: one product after the other
				require.NoError(t, err)
				want := all[g.Outputs[0]].ToRowMajor()
				r := s.NewRunner()
				for range 3 { // traced, planned, planned
					got, err := r.Run(ctx, feeds, nil)
					require.NoError(t, err)
					require.True(t, tensor.Equal(want, got[0]))
				}
				for _, v := range g.Values() { // one value is looked at, the others are computed together
					if all[v] == nil || g.Const(v) != nil {
						continue
					}
					kept, err := s.NewRunner().RunAll(ctx, feeds, nil, func(w graph.ValueID) bool { return w == v || w == g.Outputs[0] })
					require.NoError(t, err)
					require.True(t, tensor.Equal(all[v].ToRowMajor(), kept[v].ToRowMajor()), g.Value(v).Name)
					require.True(t, tensor.Equal(want, kept[g.Outputs[0]].ToRowMajor()), g.Value(v).Name)
				}
			})
		}
	}
}

// What is computed as one is computed as one: the first product of a group is not there before the last.
func TestProductsWait(t *testing.T) {
	g := graphtest.Parse(t, branches["attention"])
	s, err := prepare(g, Options{}, false)
	require.NoError(t, err)
	waiting := 0
	for i := range s.steps {
		eval := s.steps[i].eval
		s.steps[i].eval = func(c *call) error {
			err := eval(c)
			waiting = max(waiting, c.run.batch.Len())
			return err
		}
	}
	_, err = s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(9, 1, 37, 24)}, nil)
	require.NoError(t, err)
	assert.Equal(t, 3, waiting)
}
