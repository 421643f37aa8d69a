package tqc_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// PPQ has exactly eighteen combinations (ppq/core/quant.py): linear ones, and floating ones that are static with powers of two. Beside
// them there are groups, tokens, and floating ones with free scales.
func TestPoliciesAreTheEighteenAndMore(t *testing.T) {
	ppq := 0
	for p := range tqc.Policy(0x400) {
		if p.Valid() != nil {
			continue
		}
		if !p.Has(tqc.PerGroup) && !p.Has(tqc.PerToken) && (p.Has(tqc.Linear) || p.Has(tqc.PowerOf2) && !p.Has(tqc.Dynamic)) {
			ppq++
		}
		b, err := p.MarshalText()
		require.NoError(t, err)
		var q tqc.Policy
		require.NoError(t, q.UnmarshalText(b))
		require.Equal(t, p, q, "%s", b)
	}
	require.Equal(t, 18, ppq)
	require.Error(t, (tqc.Floating | tqc.Asymmetric | tqc.PerTensor).Valid())
	require.Error(t, (tqc.Linear | tqc.Symmetric | tqc.PerToken).Valid(), "tokens are dynamic")
	require.NoError(t, (tqc.Linear | tqc.Symmetric | tqc.PerToken | tqc.Dynamic).Valid())
	require.NoError(t, (tqc.Floating | tqc.Symmetric | tqc.PerGroup).Valid())
	var q tqc.Policy
	require.ErrorContains(t, q.UnmarshalText([]byte("symmetric per-tensor linear fast")), `unknown quantization property "fast"`)
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, u8.Validate())
	for want, edit := range map[string]func(c *tqc.Config){
		"1 bits":                    func(c *tqc.Config) { c.Bits = 1 },
		"33 bits":                   func(c *tqc.Config) { c.Bits = 33 },
		"is empty":                  func(c *tqc.Config) { c.QMin = 255 },
		"does not fit into 8 bits":  func(c *tqc.Config) { c.QMax = 256 },
		"without a group size":      func(c *tqc.Config) { c.Policy = tqc.PerGroup | tqc.Symmetric | tqc.Linear },
		"exactly one of per-tensor": func(c *tqc.Config) { c.Policy = tqc.Symmetric | tqc.Linear },
		"unknown rounding(77)":      func(c *tqc.Config) { c.Rounding = 77 },
		"divisor -1":                func(c *tqc.Config) { c.Divisor = -1 },
		"fixed scale 0":             func(c *tqc.Config) { c.Observer = tqc.ObserverFixed },
		"fixed zero point 300": func(c *tqc.Config) {
			c.Observer, c.FixedScale, c.FixedZeroPoint = tqc.ObserverFixed, 1, 300
		},
		`unknown observer "x"`: func(c *tqc.Config) { c.Observer = "x" },
	} {
		c := u8
		edit(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

func TestConfigText(t *testing.T) {
	b, err := json.Marshal(s8)
	require.NoError(t, err)
	require.Equal(t, `{"policy":"symmetric per-tensor linear","bits":8,"qmin":-127,"qmax":127,"rounding":"half-even","observer":"minmax"}`,
		string(b))
	var c tqc.Config
	require.NoError(t, json.Unmarshal(b, &c))
	require.Equal(t, s8, c)
	for st := tqc.Initial; st <= tqc.FP32; st++ {
		var back tqc.State
		require.NoError(t, back.UnmarshalText([]byte(st.String())))
		require.Equal(t, st, back)
	}
	for d := tqc.DomainFP32; d <= tqc.DomainSOI; d++ {
		var back tqc.Domain
		require.NoError(t, back.UnmarshalText([]byte(d.String())))
		require.Equal(t, d, back)
	}
}

func TestSameSchemeIgnoresHowTheScaleIsFound(t *testing.T) {
	fixed := u8
	fixed.Observer, fixed.FixedScale = tqc.ObserverFixed, 1
	require.True(t, u8.SameScheme(fixed))
	require.False(t, u8.SameScheme(s8))
}

// A prescribed scale that may be finer is one through a whole number, also by a float32 division, between two bounds; numbers up to hi are
// codes.
func TestWholeScales(t *testing.T) {
	c := u8
	c.Observer, c.FixedScale = tqc.ObserverFixed, 1.0/256
	require.Equal(t, float32(1.0/256), c.Whole(0.001), "it may not be finer")
	c.FinestScale = 1.0 / 8192
	require.NoError(t, c.Validate())
	for hi, n := range map[float64]float32{1: 256, 0.99: 257, 0.5: 510, 0.3: 850, 0.1: 2550, 0.04: 6375, 0.03: 8192, 1e-9: 8192, 0: 8192,
		-1: 8192} {
		s := c.Whole(hi)
		require.InEpsilon(t, 1/n, s, 1e-6, "%g", hi)
		require.Equal(t, n, float32(math.Floor(float64(1/s))), "%g", hi)
	}
	for _, finest := range []float32{1.0 / 128, -1, float32(math.NaN())} {
		c.FinestScale = finest
		require.ErrorContains(t, c.Validate(), "finest scale")
	}
	c = u8
	c.FinestScale = 1.0 / 8192
	require.ErrorContains(t, c.Validate(), "finest scale", "nothing is prescribed")
}

// For every operator that sums: the axes along which scales may vary, and those along which they may not. Gemm's
// axis 0 without transB is summed over.
func TestGranularity(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[2,6,8,8]
input m: f32[4,6]
input unknown
const w: f32[8,6,3,3] = normal(1)
const wd: f32[6,1,3,3] = normal(1)
const wg: f32[9,2,3,3] = normal(1)
const wt: f32[6,4,2,2] = normal(1)
const b: f32[8] = normal(1)
const k: f32[6,5] = normal(1)
const kt: f32[5,6] = normal(1)
c = Conv(x, w, b) "conv"
d = Conv(x, wd) {group=6} "depthwise"
e = Conv(x, wg) {group=3} "grouped"
f = ConvTranspose(x, wt) "up"
h = Gemm(m, k) "gemm"
i = Gemm(m, kt) {transB=1} "gemmT"
j = MatMul(m, k) "matmul"
l = GlobalAveragePool(x) "gap"
r = Relu(x) "relu"
u = Conv(unknown, w) "dark"
output c; output d; output e; output f; output h; output i; output j; output l; output r; output u
`)
	for _, c := range []struct {
		node  string
		input int
		ok    []int // axes that are allowed
		rank  int
	}{
		{"conv", 0, []int{0}, 4}, {"conv", 1, []int{0}, 4}, {"conv", 2, []int{0}, 1},
		{"depthwise", 0, []int{0, 1}, 4}, {"depthwise", 1, []int{0}, 4},
		{"grouped", 0, []int{0}, 4}, {"grouped", 1, []int{0}, 4},
		{"up", 0, []int{0}, 4}, {"up", 1, []int{1}, 4},
		{"gemm", 0, []int{0}, 2}, {"gemm", 1, []int{1}, 2}, {"gemmT", 1, []int{0}, 2},
		{"matmul", 0, []int{0}, 2}, {"matmul", 1, []int{1}, 2},
		{"gap", 0, []int{0, 1}, 4}, {"relu", 0, []int{0, 1, 2, 3}, 4},
	} {
		id, ok := g.LookupNode(c.node)
		require.True(t, ok)
		cfg := tqc.Config{Policy: tqc.PerChannel | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}}
		for axis := range c.rank {
			for _, cfg.Axis = range []int{axis, axis - c.rank} {
				err := tqc.CheckGranularity(g, id, c.input, cfg)
				allowed := false
				for _, a := range c.ok {
					allowed = allowed || a == axis
				}
				require.Equal(t, allowed, err == nil, "%s input %d axis %d: %v", c.node, c.input, cfg.Axis, err)
			}
		}
		cfg.Axis = c.rank
		require.ErrorContains(t, tqc.CheckGranularity(g, id, c.input, cfg), "of a tensor of rank")
		cfg.Policy = tqc.PerTensor | tqc.Symmetric | tqc.Linear
		require.NoError(t, tqc.CheckGranularity(g, id, c.input, cfg))
	}
	gemm, _ := g.LookupNode("gemm")
	group := tqc.Config{Policy: tqc.PerGroup | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 4, QMin: -8, QMax: 7}, GroupSize: 3}
	require.NoError(t, tqc.CheckGranularity(g, gemm, 1, group), "partial sums are scaled by themselves")
	group.GroupSize = 4
	require.NoError(t, tqc.CheckGranularity(g, gemm, 1, group), "the last group may be shorter")
	token := tqc.Config{Policy: tqc.PerToken | tqc.Dynamic | tqc.Symmetric | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}}
	require.NoError(t, tqc.CheckGranularity(g, gemm, 0, token))
	matmul, _ := g.LookupNode("matmul")
	require.NoError(t, tqc.CheckGranularity(g, matmul, 0, token))
	require.ErrorContains(t, tqc.CheckGranularity(g, matmul, 1, token), "along which scales of tokens vary")
	for _, node := range []string{"conv", "up", "gap"} {
		id, _ := g.LookupNode(node)
		require.ErrorContains(t, tqc.CheckGranularity(g, id, 0, token), "along which scales of tokens vary", node)
	}
	dark, _ := g.LookupNode("dark")
	per := tqc.Config{Policy: tqc.PerChannel | tqc.Symmetric | tqc.Linear, Axis: 1}
	require.ErrorContains(t, tqc.CheckGranularity(g, dark, 0, per), "need a tensor of known rank")
	per.Axis = 1
	conv, _ := g.LookupNode("conv")
	require.EqualError(t, tqc.CheckGranularity(g, conv, 1, per),
		"scales vary along axis 1 of [8,6,3,3], along which Conv sums: they cannot be taken out of the sum")
}

func TestNumScales(t *testing.T) {
	c := tqc.Config{Policy: tqc.PerGroup | tqc.Symmetric | tqc.Linear, GroupSize: 4, Axis: -1}
	n, known := tqc.NumScales(graph.Static(3, 10), &c)
	require.True(t, known)
	require.Equal(t, int64(9), n, "the last group of a row is smaller")
	_, known = tqc.NumScales(graph.Shape{{N: -1}, {N: 4}}, &c)
	require.False(t, known)
	c.Axis = 2
	n, known = tqc.NumScales(graph.Static(3, 10), &c)
	require.True(t, known)
	require.Zero(t, n)
}
