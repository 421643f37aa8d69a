package main

import (
	"fmt"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/longtest"
)

// hostile are numbers that no shape or buffer can have, by what they stand for: the body of a graph that reads x, an f32[1,3,8,8], and
// computes y in a node called "bad", and what the error says.
var hostile = []struct{ what, text, want string }{
	{"a constant of 2^45 elements", "const s: i64[1] = [35184372088832]; y = ConstantOfShape(s) \"bad\"",
		"shape [35184372088832] has more than 2^40 elements"},
	{"an expansion to 2^45 elements", "const s: i64[4] = [11728124029611, 3, 8, 8]; y = Expand(x, s) \"bad\"",
		"shape [11728124029611,3,8,8] has more than 2^40 elements"},
	{"a shape whose product overflows", "const s: i64[4] = [4294967296, 4294967296, 4294967296, 4294967296]; y = ConstantOfShape(s) \"bad\"",
		"shape [4294967296,4294967296,4294967296,4294967296] has more than 2^40 elements"},
	{"a shape whose product overflows to 0", "const s: i64[2] = [4294967296, 4294967296]; y = ConstantOfShape(s) \"bad\"",
		"shape [4294967296,4294967296] has more than 2^40 elements"},
	{"a shape whose product overflows to 1", "const s: i64[2] = [6700417, 2753074036095]; y = ConstantOfShape(s) \"bad\"",
		"shape [6700417,2753074036095] has more than 2^40 elements"},
	{"a negative shape", "const s: i64[1] = [-5]; y = ConstantOfShape(s) \"bad\"", "shape [-5] has a negative dimension"},
	{"a computed shape that overflows", "const k: i64[4] = [9223372036854775807, 9223372036854775807, 9223372036854775807, " +
		"9223372036854775807]\ns = Shape(x)\nm = Mul(s, k)\ny = ConstantOfShape(m) \"bad\"", "shape [9223372036854775807,"},
	{"a reshape that overflows", "const s: i64[4] = [-1, 4294967296, 4294967296, 4294967296]; y = Reshape(x, s) \"bad\"",
		"shape [?,4294967296,4294967296,4294967296] has more than 2^40 elements"},
	{"a reshape to the least number", "const s: i64[2] = [-9223372036854775808, 3]; y = Reshape(x, s) \"bad\"",
		"shape [-9223372036854775808,3] has a negative dimension"},
	{"a reshape with two open sizes", "const s: i64[3] = [-1, -1, 3]; y = Reshape(x, s) \"bad\"", "shape [-1,-1,3] has -1 twice"},
	{"repeats that overflow", "const s: i64[4] = [9223372036854775807, 9223372036854775807, 1, 1]; y = Tile(x, s) \"bad\"",
		"repeats [9223372036854775807,9223372036854775807,1,1] for shape [1,3,8,8]"},
	{"repeats below zero", "const s: i64[4] = [1, -1, 1, 1]; y = Tile(x, s) \"bad\"", "repeats [1,-1,1,1] for shape [1,3,8,8]"},
	{"padding that overflows", "const p: i64[8] = [0, 0, 9223372036854775807, 9223372036854775807, 0, 0, 1, 1]; y = Pad(x, p) \"bad\"",
		"pads [0,0,9223372036854775807,9223372036854775807,0,0,1,1] are out of range"},
	{"padding by the least number", "const p: i64[8] = [0, 0, -9223372036854775808, 0, 0, 0, -9223372036854775808, 0]; y = Pad(x, p) \"bad\"",
		"pads [0,0,-9223372036854775808,0,0,0,-9223372036854775808,0] are out of range"},
	{"pads of a convolution that overflow", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {pads=[9223372036854775807, " +
		"9223372036854775807, 9223372036854775807, 9223372036854775807]} \"bad\"", "pads [9223372036854775807 9223372036854775807 " +
		"9223372036854775807 9223372036854775807]: 9223372036854775807 is out of range"},
	{"pads of a convolution below zero", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {pads=[-9223372036854775808, 0, 0, 0]} \"bad\"",
		"pads [-9223372036854775808 0 0 0]: -9223372036854775808 is out of range"},
	{"strides of 0", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {strides=[0, 0]} \"bad\"", "strides [0 0]: 0 is out of range"},
	{"strides below zero", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {strides=[-1, -2]} \"bad\"",
		"strides [-1 -2]: -1 is out of range"},
	{"dilations of 0", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {dilations=[0, 0]} \"bad\"", "dilations [0 0]: 0 is out of range"},
	{"dilations that overflow", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {dilations=[9223372036854775807, " +
		"9223372036854775807]} \"bad\"", "dilations [9223372036854775807 9223372036854775807]: 9223372036854775807 is out of range"},
	{"dilations of the least number", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {dilations=[-9223372036854775808, 1]} \"bad\"",
		"dilations [-9223372036854775808 1]: -9223372036854775808 is out of range"},
	{"groups of 0", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {group=0} \"bad\"", "group 0"},
	{"groups below zero", "const w: f32[2,3,3,3] = fill(1); y = Conv(x, w) {group=-3} \"bad\"", "group -3"},
	{"strides of a transposed convolution that overflow", "const w: f32[3,2,3,3] = fill(1); y = ConvTranspose(x, " +
		"w) {strides=[9223372036854775807, 9223372036854775807]} \"bad\"", "strides [9223372036854775807 9223372036854775807]: " +
		"9223372036854775807 is out of range"},
	{"output padding that overflows", "const w: f32[3,2,3,3] = fill(1); y = ConvTranspose(x, w) {output_padding=[9223372036854775807, " +
		"9223372036854775807]} \"bad\"", "output_padding [9223372036854775807 9223372036854775807]: 9223372036854775807 is out of range"},
	{"output shape of 2^45", "const w: f32[3,2,3,3] = fill(1); y = ConvTranspose(x, w) {output_shape=[35184372088832, 1]} \"bad\"",
		"output_shape [35184372088832 1] is out of range"},
	{"a pool of 0", "y = MaxPool(x) {kernel_shape=[0, 0]} \"bad\"", "kernel size 0 on spatial axis 0"},
	{"a pool below zero", "y = AveragePool(x) {kernel_shape=[-2, 2]} \"bad\"", "kernel size -2 on spatial axis 0"},
	{"a pool that overflows", "y = MaxPool(x) {kernel_shape=[9223372036854775807, 2], dilations=[9223372036854775807, 1]} \"bad\"",
		"kernel size 9223372036854775807 on spatial axis 0"},
	{"pads of a pool that overflow", "y = AveragePool(x) {kernel_shape=[2, 2], pads=[9223372036854775807, 0, 9223372036854775807, 0]} \"bad\"",
		"pads [9223372036854775807 0 9223372036854775807 0]: 9223372036854775807 is out of range"},
	{"strides of a pool of 0", "y = MaxPool(x) {kernel_shape=[2, 2], strides=[0, 0]} \"bad\"", "strides [0 0]: 0 is out of range"},
	{"huge scales", "const s: f32[4] = [1, 1, 1e30, 1e30]; y = Resize(x, _, s) \"bad\"", "scales [1 1 1e+30 1e+30] for shape [1 3 8 8]"},
	{"infinite scales", "const s: f32[4] = [1, 1, inf, 1]; y = Resize(x, _, s) \"bad\"", "scales [1 1 +Inf 1] for shape [1 3 8 8]"},
	{"scales that are no numbers", "const s: f32[4] = [1, 1, nan, 1]; y = Resize(x, _, s) \"bad\"", "scales [1 1 NaN 1] for shape [1 3 8 8]"},
	{"scales below zero", "const s: f32[4] = [1, 1, -1, 1]; y = Resize(x, _, s) \"bad\"", "scales [1 1 -1 1] for shape [1 3 8 8]"},
	{"sizes of 2^45", "const s: i64[4] = [1, 3, 35184372088832, 8]; y = Resize(x, _, _, s) \"bad\"",
		"sizes [1 3 35184372088832 8] for shape [1 3 8 8]"},
	{"sizes below zero", "const s: i64[4] = [1, 3, -8, 8]; y = Resize(x, _, _, s) \"bad\"", "sizes [1 3 -8 8] for shape [1 3 8 8]"},
	{"a range of all numbers", "const a: i64[] = [-9223372036854775808]; const b: i64[] = [9223372036854775807]; const c: i64[] = [1]; " +
		"y = Range(a, b, c) \"bad\"", "start -9223372036854775808, limit 9223372036854775807 and delta 1 make a range of"},
	{"a range by 0", "const a: i64[] = [0]; const b: i64[] = [9]; const c: i64[] = [0]; y = Range(a, b, c) \"bad\"", "delta is 0"},
	{"a depth of 2^45", "const i: i64[1] = [1]; const d: i64[] = [35184372088832]; const v: f32[2] = [0, 1]; y = OneHot(i, d, v) \"bad\"",
		"shape [1,35184372088832] has more than 2^40 elements"},
	{"a depth below zero", "const i: i64[1] = [1]; const d: i64[] = [-1]; const v: f32[2] = [0, 1]; y = OneHot(i, d, v) \"bad\"", "depth -1"},
	{"parts whose sum overflows", "const s: i64[3] = [9223372036854775807, 9223372036854775807, 5]; y, z, u = Split(x, s) {axis=1} \"bad\"",
		"split sizes [9223372036854775807,9223372036854775807,5]"},
	{"blocks that overflow", "y = DepthToSpace(x) {blocksize=4294967296} \"bad\"", "blocksize 4294967296 for shape [1,3,8,8]"},
	{"blocks of 0", "y = SpaceToDepth(x) {blocksize=0} \"bad\"", "blocksize 0"},
	{"an axis far out", "y = Softmax(x) {axis=9223372036854775807} \"bad\"", "axis 9223372036854775807 is out of range for rank 4"},
	{"the least axis", "y = Flatten(x) {axis=-9223372036854775808} \"bad\"", "axis -9223372036854775808 is out of range for [1,3,8,8]"},
	{"more than there are", "const k: i64[1] = [9223372036854775807]; y, i = TopK(x, k) \"bad\"",
		"k 9223372036854775807 is out of range for axis 3 of [1,3,8,8]"},
	{"a slice by 0", "const a: i64[1] = [0]; const b: i64[1] = [8]; const c: i64[1] = [2]; const d: i64[1] = [0]; y = Slice(x, a, b, " +
		"c, d) \"bad\"", "step 0"},
}

// Numbers that cannot be met are errors that name the node, whatever reads the model, and take neither time nor memory.
func TestHostileNumbers(t *testing.T) {
	inFolder(t)
	saveInputs(t, "data", 100, 1, 1, 3, 8, 8)
	for _, c := range hostile {
		t.Run(c.what, func(t *testing.T) {
			saveLoose(t, "m.onnx", "opset 17\ninput x: f32[1,3,8,8]\n"+c.text+"\noutput y")
			want := `"bad".*` + regexp.QuoteMeta(c.want)
			bounded(t, 64<<20, func() {
				fails(t, exitFailed, want, "run", "m.onnx", "--input", "x=data/00.npy", "--output", "out")
				fails(t, exitFailed, `"bad"`, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8") // or the engine refuses it first
				require.Regexp(t, want, invoke("inspect", "m.onnx").stderr, "as a warning, or as the error where nothing else can be said")
			})
		})
	}
}

// Values that double again and again are refused by the budget before they are computed, wherever that lies.
func TestHostileGrowth(t *testing.T) {
	inFolder(t)
	saveInputs(t, "data", 100, 1, 1, 3, 8, 8)
	text := "opset 17\ninput x: f32[1,3,8,8]\nd0 = Identity(x)\n"
	for i := range 40 {
		text += fmt.Sprintf("d%d = Concat(d%d, d%d) {axis=0} \"double%d\"\n", i+1, i, i, i+1)
	}
	saveLoose(t, "m.onnx", text+"output d40")
	bounded(t, 128<<20, func() {
		fails(t, exitFailed, `one sample takes about [0-9]+M of memory, more than the 16M .*--mem [0-9]+M would do`, "run",
			"m.onnx", "--input", "x=data/00.npy", "--output", "out", "--mem", "16M")
	})
}

// saveLoose writes the graph of a text that need not make sense.
func saveLoose(t *testing.T, path, text string) {
	t.Helper()
	g, err := graph.Parse(text)
	require.NoError(t, err)
	require.NoError(t, (&onnx.Model{Graph: g}).Save(path, onnx.SaveOptions{}))
}

// bounded fails the test if f allocates more than so many bytes in all, or takes minutes where it should take milliseconds.
func bounded(t *testing.T, bytes uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, bytes)
	require.Less(t, took, longtest.Hang)
}
