package cpu_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// layer is a transformer's layer whose products read integers and give real numbers. Y stands for Q/DQ pairs.
const layer = `
graph layer
opset 17
input x: f32[%[1]d,%[2]d,64]
const s: f32[] = [0.03]
const z: u8[] = [%[3]d]
const t: f32[] = [0.004]
const o: u8[] = [0]
const ws: f32[] = [0.002]
const wz: %[4]s[] = [%[5]d]
const wq_q: %[4]s[64,64] = uniform(seed=7, low=%[6]d, high=%[7]d)
const wk_q: %[4]s[64,64] = uniform(seed=3, low=%[6]d, high=%[7]d)
const wv_q: %[4]s[64,64] = uniform(seed=5, low=%[6]d, high=%[7]d)
const wo_q: %[4]s[64,64] = uniform(seed=11, low=%[6]d, high=%[7]d)
const wu_q: %[4]s[64,144] = uniform(seed=13, low=%[6]d, high=%[7]d)
const wd_q: %[4]s[144,64] = uniform(seed=9, low=%[6]d, high=%[7]d)
const bq: f32[64] = normal(seed=1, std=0.3)
const bk: f32[64] = normal(seed=2, std=0.3)
const bv: f32[1,64] = normal(seed=3, std=0.3)
const bo: f32[64] = normal(seed=4, std=0.3)
const bu: f32[144] = normal(seed=5, std=0.3)
const gamma: f32[64] = normal(seed=6, std=0.4)
const beta: f32[64] = normal(seed=7, std=0.4)
const heads: i64[4] = [0, 0, 4, 16]
const flat: i64[3] = [0, 0, 64]
const root: f32[] = [1.4142135]
const one: f32[] = [1]
const half: f32[1] = [0.5]
const four: f32[] = [4]
wq = DequantizeLinear(wq_q, ws, wz)
wk = DequantizeLinear(wk_q, ws, wz)
wv = DequantizeLinear(wv_q, ws, wz)
wo = DequantizeLinear(wo_q, ws, wz)
wu = DequantizeLinear(wu_q, ws, wz)
wd = DequantizeLinear(wd_q, ws, wz)
xd = Y(x)
q = MatMul(xd, wq) "q"
qb = Add(q, bq)
qh = Reshape(qb, heads)
qt = Transpose(qh) {perm=[0, 2, 1, 3]}
qd = Y(qt)
k = MatMul(xd, wk) "k"
kb = Add(bk, k)
kh = Reshape(kb, heads)
kt = Transpose(kh) {perm=[0, 2, 3, 1]}
kd = Y(kt)
v = MatMul(xd, wv) "v"
vb = Add(v, bv)
vh = Reshape(vb, heads)
vt = Transpose(vh) {perm=[0, 2, 1, 3]}
vd = Y(vt)
qk = MatMul(qd, kd) "scores"
qs = Div(qk, four)
p = Softmax(qs) {axis=-1}
pq = QuantizeLinear(p, t, o)
pd = DequantizeLinear(pq, t, o)
a = MatMul(pd, vd) "mix"
at = Transpose(a) {perm=[0, 2, 1, 3]}
af = Reshape(at, flat)
ad = Y(af)
c = MatMul(ad, wo) "out"
cb = Add(c, bo)
cx = Add(x, cb)
n = LayerNormalization(cx, gamma, beta)
nd = Y(n)
u = MatMul(nd, wu) "up"
ub = Add(u, bu)
e1 = Div(ub, root)
e2 = Erf(e1)
e3 = Add(e2, one)
e4 = Mul(ub, e3)
e5 = Mul(e4, half)
ed = Y(e5)
d = MatMul(ed, wd) "down"
r = Add(d, n)
y = LayerNormalization(r, gamma)
output y: f32[%[1]d,%[2]d,64]
`

// crossed returns the program of a layer for a batch of sentences of so many words; weights are signed or not, with a zero point.
func crossed(t testing.TB, batch, words int, zero int, weights string, wzero int,
	changes ...string) (*lower.Program, map[string]*tensor.Tensor) {
	low := -128
	if weights == "u8" {
		low = 0
	}
	text := strings.NewReplacer(changes...).Replace(layer)
	text = fmt.Sprintf(text, batch, words, zero, weights, wzero, low, low+255)
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if to, from, ok := strings.Cut(line, " = Y("); ok {
			from = strings.TrimSuffix(from, ")")
			lines = append(lines, fmt.Sprintf("%s_q = QuantizeLinear(%s, s, z)", to, from), fmt.Sprintf("%s = DequantizeLinear(%s_q, s, z)", to, to))
			continue
		}
		lines = append(lines, line)
	}
	g := graphtest.Parse(t, strings.Join(lines, "\n"))
	graph.InferShapes(g)
	read, err := qdq.Read(context.Background(), g)
	require.NoError(t, err)
	tg := &target.ONNXRuntime
	im, err := read.Configure(tg)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	p, err := lower.Compile(im.Graph, im.Set, tg, pr)
	require.NoError(t, err)
	x := tensor.New(tensor.Float32, batch, words, 64)
	for i := range x.F32() {
		x.F32()[i] = float32(i*7919%257-128) / 40
	}
	return p, map[string]*tensor.Tensor{"x": x}
}

// Products are computed together with the islands behind them, and give the same bits as step by step.
func TestProductsCrossIntoIslands(t *testing.T) {
	for _, c := range []struct {
		batch, words, zero int
		weights            string
		wzero              int
	}{{1, 1, 128, "i8", 0}, {1, 7, 128, "i8", 0}, {1, 40, 121, "i8", 0}, {2, 33, 128, "u8", 131}, {5, 9, 100, "u8", 128}} {
		p, feeds := crossed(t, c.batch, c.words, c.zero, c.weights, c.wzero)
		e, err := cpu.Backend.New(p, 1)
		require.NoError(t, err)
		require.Equal(t, 8, cpu.Crossings(e), lower.Format(p))
		_, err = e.Run(t.Context(), []*tensor.Tensor{feeds["x"]}, nil)
		require.NoError(t, err)
		require.Zero(t, cpu.Apart(e))
		require.Positive(t, programtest.Equal(t, p, feeds, backends(), 1, 2))
	}
}

// Where heads share their keys the stacks of a product differ: the reference computes it, of operands that crossings left in another order.
// So does an operand that is broadcast.
func TestCrossingsBesideTheReference(t *testing.T) {
	for name, changes := range map[string][]string{
		"one head of keys": {"const wk_q: %[4]s[64,64]", "const wk_q: %[4]s[64,16]", "const bk: f32[64]", "const bk: f32[16]",
			"kh = Reshape(kb, heads)", "kh = Reshape(kb, head)", "const flat:", "const head: i64[4] = [0, 0, 1, 16]\nconst flat:"},
		"a mask": {"qs = Div(qk, four)", "qm = Div(qk, four)\nqs = Add(qm, mask)", "const s: f32[] = [0.03]",
			"input mask: f32[%[1]d,1,1,%[2]d]\nconst s: f32[] = [0.03]"},
	} {
		for _, batch := range []int{1, 2} {
			p, feeds := crossed(t, batch, 9, 128, "i8", 0, changes...)
			if _, ok := p.Graph.Lookup("mask"); ok {
				feeds["mask"] = graphtest.Normal(3, batch, 1, 1, 9)
			}
			require.Positive(t, programtest.Equal(t, p, feeds, backends(), 1, 2), "%s, %d", name, batch)
		}
	}
}

// BenchmarkLayer times it.
func BenchmarkLayer(b *testing.B) {
	p, feeds := crossed(b, 1, 128, 128, "i8", 0)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint("threads=", threads), func(b *testing.B) {
			e, err := program.New(p, cpu.Backend, threads)
			require.NoError(b, err)
			forward(b, func() error {
				_, err := e.Run(b.Context(), feeds, nil)
				return err
			})
		})
	}
}
