package analysis_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// costNet has, of one sample: conv1 of 8*3*9*64 = 13,824 multiply-accumulates with 216 weights and 8 biases, conv2 of 16*8*64 = 8,192 with
// 128 and 16, and gemm of 10*16 = 160 with 160 and 10.
const costNet = `opset 17
input x: f32[N,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1); const b1: f32[8] = normal(seed=2)
const w2: f32[16,8,1,1] = normal(seed=3); const b2: f32[16] = normal(seed=4)
const w3: f32[10,16] = normal(seed=5); const b3: f32[10] = normal(seed=6)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]} "conv1"
r1 = Relu(c1) "relu1"
c2 = Conv(r1, w2, b2) "conv2"
p = GlobalAveragePool(c2) "pool"
f = Flatten(p) "flatten"
y = Gemm(f, w3, b3) {transB=1} "gemm"
output y`

// costSet configures costNet; no range is needed to say what it costs.
func costSet(t *testing.T, platform string, words map[string]string, selects ...string) (*graph.Graph, *tqc.Set) {
	t.Helper()
	g := graphtest.Parse(t, costNet)
	graph.InferShapes(g)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	var list []decision.Decision
	for _, s := range selects {
		p, err := decision.ParseProperties(strings.Fields(words[s]))
		require.NoError(t, err)
		list = append(list, decision.Decision{By: decision.ByUser, Select: decision.Select{s}, Properties: p})
	}
	table, err := decision.Fold(g, list)
	require.NoError(t, err)
	var forced []dispatch.Forced
	for _, id := range g.Nodes() {
		if d := table.Nodes[id].Domain; d != "" {
			forced = append(forced, dispatch.Forced{Nodes: []graph.NodeID{id}, Domain: d.Of(), Who: dispatch.ByUser})
		}
	}
	free := 0.0
	a, err := dispatch.Assign(g, tg, dispatch.Options{Forced: forced, BorderCost: &free})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, tg, quantizer.Options{Decisions: table})
	require.NoError(t, err)
	return g, set
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		platform string
		words    map[string]string
		macs     map[string]int64
		bytes    map[string]int64
		work     float64
		borders  int
	}{
		// Codes, and a scale of 4 bytes for each channel; biases of 4 bytes.
		{"onnxruntime", nil, map[string]int64{"int8": 22176}, map[string]int64{"int8": 216 + 32 + 128 + 64 + 160 + 40, "int32": 4 * 34}, 22176,
			2},
		// Half of the codes; the arithmetic stays that of the activations.
		{"onnxruntime", map[string]string{"conv1": "weights=int4-sym-channel"}, map[string]int64{"int8": 22176},
			map[string]int64{"int4": 108 + 32, "int8": 128 + 64 + 160 + 40, "int32": 4 * 34}, 22176, 2},
		// A zero point of 4 bits for each channel.
		{"onnxruntime", map[string]string{"conv1": "weights=uint4-asym-channel"}, map[string]int64{"int8": 22176},
			map[string]int64{"int4": 108 + 32 + 4, "int8": 128 + 64 + 160 + 40, "int32": 4 * 34}, 22176, 2},
		// Groups along 16 input channels of the gemm: one of 16 for each of 10 rows. Its bias stays float.
		{"onnxruntime", map[string]string{"gemm": "weights=int4-sym-g16"}, map[string]int64{"int8": 22176},
			map[string]int64{"int4": 80 + 40, "int8": 216 + 32 + 128 + 64, "int32": 4 * 24, "fp32": 40}, 22176, 2},
		{"onnxruntime", map[string]string{"conv2": "activations=int16-sym-tensor"}, map[string]int64{"int8": 13824 + 160, "int16": 8192},
			nil, 13824 + 160 + 2*8192, 2},
		{"onnxruntime", map[string]string{"conv1": "domain=fp32"}, map[string]int64{"fp32": 13824, "int8": 8352},
			map[string]int64{"fp32": 4 * (216 + 8), "int8": 128 + 64 + 160 + 40, "int32": 4 * 26}, 4*13824 + 8352, 2},
		{"onnxruntime", map[string]string{"conv1": "domain=fp16"}, map[string]int64{"fp16": 13824, "int8": 8352},
			map[string]int64{"fp16": 2 * (216 + 8), "int8": 128 + 64 + 160 + 40, "int32": 4 * 26}, 2*13824 + 8352, 2},
		// Numbers that no integer unit multiplies.
		{"onnxruntime", map[string]string{"gemm": "weights=e4m3-sym-tensor"}, map[string]int64{"fp32": 160, "int8": 22016},
			map[string]int64{"e4m3": 160 + 4, "int8": 216 + 32 + 128 + 64, "int32": 4 * 24, "fp32": 40}, 4*160 + 22016, 2},
		// Float biases, and a pool in float between two integer operators.
		{"trt_int8", nil, map[string]int64{"int8": 22176}, map[string]int64{"int8": 216 + 32 + 128 + 64 + 160 + 40, "fp32": 4 * 34}, 22176, 4},
	} {
		var selects []string
		for s := range c.words {
			selects = append(selects, s)
		}
		g, set := costSet(t, c.platform, c.words, selects...)
		cost, err := analysis.CostOf(g, set, nil, nil)
		require.NoError(t, err)
		require.Equal(t, c.macs, cost.MACs, "%s %v", c.platform, c.words)
		if c.bytes != nil {
			require.Equal(t, c.bytes, cost.Bytes, "%s %v", c.platform, c.words)
		}
		require.Equal(t, c.work, cost.Work(), "%s %v", c.platform, c.words)
		require.Equal(t, c.borders, cost.Borders, "%s %v", c.platform, c.words)
		require.Nil(t, cost.Seconds)
	}
}

// Where a target multiplies integers of eight bits alone, others are of float.
func TestCostOfEightBits(t *testing.T) {
	tg, err := target.Find("onnxruntime")
	require.NoError(t, err)
	g, set := costSet(t, "onnxruntime", map[string]string{"conv2": "activations=int16-sym-tensor", "gemm": "weights=int4-sym-channel"},
		"conv2", "gemm")
	as, err := analysis.CostOf(g, set, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"int8": 13824 + 160, "int16": 8192}, as.MACs)
	in, err := analysis.CostOf(g, set, tg, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"int8": 13824, "fp32": 8192 + 160}, in.MACs)
}

// A constant that two operators read counts once in each format.
func TestCostOfSharedConstants(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
input x: f32[1,16]
const w: f32[16,16] = normal(seed=1)
a = MatMul(x, w) "a"
b = MatMul(a, w) "b"
output b`)
	graph.InferShapes(g)
	set := tqc.NewSet(g)
	cost, err := analysis.CostOf(g, set, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"fp32": 1024}, cost.Bytes)
	set.Domains[g.Nodes()[1]] = tqc.DomainFP16
	cost, err = analysis.CostOf(g, set, nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"fp32": 1024, "fp16": 512}, cost.Bytes)
	require.Equal(t, int64(1536), cost.TotalBytes())
}

const box = `name: box
doc: a machine
gops: {fp32: 1, int8: 4}
read:
  - {bytes: 1000, gbps: 2}
  - {bytes: 100000, gbps: 1}
border_ns: 1
overhead_us: 10
`

func TestPredictedTime(t *testing.T) {
	d, err := analysis.ParseDevice([]byte(box))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(box))
	require.Equal(t, hex.EncodeToString(sum[:]), d.SHA256)

	// In float: conv1 with its Relu, conv2, pool and gemm; the Flatten takes no time. Arithmetic in microseconds of 1000 operations each.
	g, set := costSet(t, "onnxruntime", map[string]string{"*": "domain=fp32"}, "*")
	cost, err := analysis.CostOf(g, set, nil, d)
	require.NoError(t, err)
	pool := 4. * (16*64 + 16) / 1 // bytes at 1 GB/s: more than a thousand
	gemm := 4. * (16 + 10 + 160 + 10) / 2
	require.Greater(t, gemm, 2*160.)
	require.InDelta(t, 1e-9*(2*13824+2*8192+pool+gemm)+4*10e-6, *cost.Seconds, 1e-12)
	require.Equal(t, d.SHA256, cost.Device)

	// On integers arithmetic is four times as fast, tensors are a quarter, but for the output, which the gemm writes as float; the input is
	// converted: 1 ns for each element, and the traffic of 5 bytes for each.
	g, set = costSet(t, "onnxruntime", nil)
	cost, err = analysis.CostOf(g, set, nil, d)
	require.NoError(t, err)
	pool = (16*64 + 16) / 1
	gemm = (16 + 40 + 160 + 40 + 40) / 2
	require.Greater(t, gemm, 2*160./4)
	borders := (1 + 5/2.) * 192
	require.InDelta(t, 1e-9*(2*13824/4+2*8192/4+pool+gemm+borders)+4*10e-6, *cost.Seconds, 1e-12)
}

// What has no speed is computed in what can take its place; what nothing can take the place of is an error that names the operator.
func TestSpeeds(t *testing.T) {
	at := func(gops, words string) (float64, error) {
		d, err := analysis.ParseDevice([]byte("name: box\ndoc: x\ngops: {" + gops + "}\nread: [{bytes: 1, gbps: 1000000}]"))
		require.NoError(t, err)
		g, set := costSet(t, "onnxruntime", map[string]string{"conv2": words}, "conv2")
		cost, err := analysis.CostOf(g, set, nil, d)
		if err != nil {
			return 0, err
		}
		return *cost.Seconds, nil
	}
	for _, c := range []struct {
		gops, words string
		speed       float64 // of conv2
		rest        float64 // of the others
	}{
		{"int8: 4, fp32: 1", "activations=int16-sym-tensor", 1, 4},
		{"int8: 4, int16: 2, fp32: 1", "activations=int16-sym-tensor", 2, 4},
		{"fp32: 1", "activations=int16-sym-tensor", 1, 1},
		{"int8: 4, fp16: 2, fp32: 1", "domain=fp16", 2, 4},
		{"int8: 4, fp32: 1", "domain=bf16", 1, 4},
		{"int8: 4, fp16: 2", "weights=int4-sym-channel", 4, 4},
		{"int16: 3", "weights=int4-sym-channel", 3, 3},
		{"fp16: 2", "weights=int4-sym-channel", 2, 2},
	} {
		s, err := at(c.gops, c.words)
		require.NoError(t, err)
		require.InEpsilon(t, 2*8192/c.speed+2*(13824+160)/c.rest, s*1e9, 1e-2, "%s, %s", c.gops, c.words)
	}
	_, err := at("int8: 4", "domain=fp32")
	require.EqualError(t, err, `cost: node "conv2" (Conv, f32[N,8,8,8], f32[16,8,1,1], f32[16]): device "box" has no speed for fp32, `+
		`nor for a format that could take its place`)
}

func TestDeviceFileMistakes(t *testing.T) {
	for change, message := range map[string]string{
		"name: box|":                  "device file: it has no name",
		"border_ns: 1|border_ns: -1":  "device file: border_ns: -1 is not a time",
		"overhead_us: 10|overhead: 1": `device file: \[8:1\] unknown field "overhead"`,
		"{fp32: 1, int8: 4}|{}":       "device file: gops: no speed of any format",
		"int8: 4|byte: 4":             `device file: gops: there is no format "byte"`,
		"int8: 4|int8: 0":             "device file: gops: int8: 0 is not a speed",
		"bytes: 1000,|bytes: 100000,": "device file: read: sizes have to ascend, and 100000 follows 100000",
		"gbps: 2|gbps: -2":            "device file: read: 1000 bytes at -2 GB/s",
		"gbps: 2|gbps: .nan":          "device file: read: 1000 bytes at NaN GB/s",
	} {
		old, text, _ := strings.Cut(change, "|")
		require.Contains(t, box, old)
		_, err := analysis.ParseDevice([]byte(strings.Replace(box, old, text, 1)))
		require.Error(t, err, change)
		require.Regexp(t, message, err.Error())
	}
	d, err := analysis.ParseDevice([]byte(box))
	require.NoError(t, err)
	again, err := analysis.ParseDevice(d.YAML())
	require.NoError(t, err)
	again.SHA256 = d.SHA256
	require.Equal(t, d, again)
}
