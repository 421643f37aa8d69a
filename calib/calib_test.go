package calib_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// network has a residual Add, a Concat, pooling, a Softmax and operators that only move elements.
const network = `
opset 17
input x: f32[1,3,8,8]
const w1: f32[4,3,3,3] = normal(1, std=0.3)
const b1: f32[4] = normal(2)
const w2: f32[4,4,1,1] = normal(3)
const b2: f32[4] = normal(4, std=0.1)
const w3: f32[10,8] = normal(5)
const b3: f32[10] = normal(6)
c1 = Conv(x, w1, b1) {pads=[1, 1, 1, 1]}
r1 = Relu(c1)
c2 = Conv(r1, w2, b2)
a = Add(r1, c2)
r2 = Relu(a)
p = MaxPool(r2) {kernel_shape=[2, 2], strides=[2, 2]}
cat = Concat(p, p2) {axis=1}
p2 = AveragePool(r1) {kernel_shape=[2, 2], strides=[2, 2]}
gap = GlobalAveragePool(cat)
f = Flatten(gap)
y = Gemm(f, w3, b3) {transB=1}
s = Softmax(y)
output s: f32[1,10]
`

// list is a data set in memory.
type list struct {
	samples []*exec.Sample
	next    int
	stop    func(i int) // called before sample i is handed out
}

func (l *list) Len() int { return len(l.samples) }

func (l *list) Next(ctx context.Context) (*exec.Sample, error) {
	if l.next == len(l.samples) {
		return nil, io.EOF
	}
	if l.stop != nil {
		l.stop(l.next)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.next++
	return l.samples[l.next-1], nil
}

func sampleOf(name string, v []float32, shape ...int) *exec.Sample {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, v)
	return &exec.Sample{Name: name, Hash: [32]byte(h.Sum(nil)), Label: -1, Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32(v, shape...)}}
}

func images(seed uint64, n int) []*exec.Sample {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []*exec.Sample
	for i := range n {
		v := make([]float32, 3*8*8)
		for k := range v {
			v[k] = float32(r.NormFloat64())
		}
		out = append(out, sampleOf(fmt.Sprintf("%d/%d", seed, i), v, 1, 3, 8, 8))
	}
	return out
}

func run(t testing.TB, g *graph.Graph, samples []*exec.Sample, cfg calib.Config) *calib.Stats {
	t.Helper()
	s, err := calib.Run(context.Background(), g, &list{samples: samples}, cfg)
	require.NoError(t, err)
	return s
}

// configure configures g for a platform, every operator that can be quantized being worth it.
func configure(t testing.TB, g *graph.Graph, platform string, o quantizer.Options) *tqc.Set {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0
	a, err := dispatch.Assign(g, &free, dispatch.Options{})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &free, o)
	require.NoError(t, err)
	return set
}

// decided are the options of one decision about everything.
func decided(t testing.TB, g *graph.Graph, p decision.Properties) quantizer.Options {
	t.Helper()
	table, err := decision.Fold(g, []decision.Decision{{By: decision.ByCalibrate, Properties: p}})
	require.NoError(t, err)
	return quantizer.Options{Decisions: table}
}

func parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	return graphtest.Parse(t, text)
}

var nan = float32(math.NaN())

// seal appends the checksum of a file of statistics.
func seal(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(append([]byte(nil), body...), sum[:]...)
}
