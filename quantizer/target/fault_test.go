package target_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	. "qwb/quantizer/target"
)

func TestVersionsOfFaults(t *testing.T) {
	f := Fault{Since: "1.9", Until: "1.27"}
	for version, has := range map[string]bool{"1.8.3": false, "1.9": true, "1.9.0": true, "1.26.1": true, "1.27": false, "1.27.0": false,
		"1.100": false, "2": false, "1.26.0-rc1": true} {
		require.Equal(t, has, f.In(version), version)
	}
	require.Equal(t, "1.9 to before 1.27", f.Versions())
}

// Every row says what there is to know, can be found in a file or says why not, and those that the script holds are rows of the script and
// of its table.
func TestFaults(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "examples", "engines", "faults.py"))
	require.NoError(t, err)
	table, err := os.ReadFile(filepath.Join("..", "..", "examples", "engines", "measured", "faults_table.md"))
	require.NoError(t, err)
	names, held := map[string]bool{}, 0
	for i := range Faults {
		f := &Faults[i]
		require.False(t, names[f.Name], f.Name)
		names[f.Name] = true
		for _, s := range []string{f.Engine, f.Pattern, f.Effect, f.Cure, f.Source, f.Held} {
			require.NotEmpty(t, s, f.Name)
		}
		for _, p := range f.Targets {
			_, err := Known(p)
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(FaultsOf(p, ""), func(x *Fault) bool { return x == f }))
		}
		require.True(t, (f.Met == nil) != (f.Rule == ""), f.Name)
		if strings.Contains(f.Held, "faults.py") {
			held++
			require.Contains(t, string(table), "`"+f.Name+"`")
			require.Contains(t, string(script), `@row("`+f.Name+`"`)
		}
	}
	require.GreaterOrEqual(t, held, 15)
	for _, m := range regexp.MustCompile(`@row\("([^"]+)"`).FindAllStringSubmatch(string(script), -1) {
		require.True(t, names[m[1]], "%s has no row", m[1])
	}
}

// The patterns are met by what they describe, and not by the same operator without it.
func TestFaultsAreMet(t *testing.T) {
	const pair = "s: f32[] = Constant() {value=f32[] 0.02}\nz: u8[] = Constant() {value=u8[] 128}\n" +
		"xq: u8[1,4,8,8] = QuantizeLinear(x, s, z)\nxd: f32[1,4,8,8] = DequantizeLinear(xq, s, z)\n"
	const shared = "const w: f32[4,4,1,1] = normal(seed=1)\nt: f32[] = Constant() {value=f32[] 0.1}\nk: u8[] = Constant() {value=u8[] 0}\n" +
		"wq: u8[4,4,1,1] = QuantizeLinear(w, t, k)\nwd: f32[4,4,1,1] = DequantizeLinear(wq, t, k)\nc: f32[N,4,8,8] = Conv(xd, wd) \"n\"\n"
	for name, nodes := range map[string][2]string{
		"ort-average-ceil": {
			"y: f32[1,4,5,5] = AveragePool(xd) {ceil_mode=1, count_include_pad=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]} \"n\"",
			"y: f32[1,4,4,4] = AveragePool(xd) {count_include_pad=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]} \"n\""},
		"ort-add-scales": {"t: f32[] = Constant() {value=f32[] 8000}\nwq: u8[1,4,8,8] = QuantizeLinear(x, t, z)\n" +
			"w = DequantizeLinear(wq, t, z)\ny: f32[1,4,8,8] = Add(xd, w) \"n\"", "y: f32[1,4,8,8] = Add(xd, xd) \"n\""},
		"ort-blocks-512": {"y: f32[1,4,8,8] = com.microsoft::MatMulNBits(xd, xq, s) {K=8, N=8, bits=4, block_size=512} \"n\"",
			"y: f32[1,4,8,8] = com.microsoft::MatMulNBits(xd, xq, s) {K=8, N=8, bits=4, block_size=256} \"n\""},
		"ov-amx-patches": {"const w: f32[8,32,4,4] = normal(seed=1)\ny: f32[1,8,2,2] = Conv(xd, w) {strides=[4, 4]} \"n\"",
			"const w: f32[8,32,4,4] = normal(seed=1)\ny: f32[1,8,3,3] = Conv(xd, w) {strides=[2, 2]} \"n\""},
		"ov-padding-columns": {"const w: f32[2,4,2,2] = normal(seed=1)\nv = Slice(xd, a, b, c)\nconst a: i64[1] = [0]\n" +
			"const b: i64[1] = [1]\nconst c: i64[1] = [3]\nvq: u8[1,4,8,1] = QuantizeLinear(v, s, z)\n" +
			"vd: f32[1,4,8,1] = DequantizeLinear(vq, s, z)\n" +
			"y: f32[1,2,8,1] = Conv(vd, w) {dilations=[1, 2], pads=[0, 1, 1, 1]} \"n\"",
			"const w: f32[2,4,2,2] = normal(seed=1)\ny: f32[1,2,8,8] = Conv(xd, w) {dilations=[1, 2], pads=[0, 1, 1, 1]} \"n\""},
		"ort-resize-corners": {"const r: f32[4] = [1, 1, 1.3, 2]\ny: f32[1,4,10,16] = Resize(xd, _, r) " +
			"{mode=\"linear\", coordinate_transformation_mode=\"align_corners\"} \"n\"",
			"const r: f32[4] = [1, 1, 1.5, 2]\ny: f32[1,4,12,16] = Resize(xd, _, r) " +
				"{mode=\"linear\", coordinate_transformation_mode=\"align_corners\"} \"n\""},
		"ov-shared-sum": {shared + "m: f32[N,4,1,1] = GlobalAveragePool(c)\ny: f32[N,4,8,8] = Sub(c, m)",
			shared + "m: f32[N,4,8,8] = Sigmoid(c)\ny: f32[N,4,8,8] = Mul(c, m)"},
		"ov-moved-ones": {"const a: i64[1] = [2]\nm: f32[1,4,8] = ReduceMean(xd, a) {keepdims=0}\n" +
			"y: f32[4,1,8] = Transpose(m) {perm=[1, 0, 2]} \"n\"", "const a: i64[1] = [2]\nm: f32[1,4,8] = ReduceMean(xd, a) {keepdims=0}\n" +
			"y: f32[1,8,4] = Transpose(m) {perm=[0, 2, 1]} \"n\""},
		"ort-softmax-one": {"y: f32[1,4,8,8] = Softmax(xd) {axis=0} \"n\"", "y: f32[1,4,8,8] = Softmax(xd) {axis=1} \"n\""},
	} {
		for i, line := range nodes {
			g := graphtest.Parse(t, "opset 19\ninput x: f32[1,4,8,8]\n"+pair+line+"\nyq = QuantizeLinear(y, s, z)\noutput yq: u8[?,?,?,?]\n")
			id, ok := g.LookupNode("n")
			require.True(t, ok)
			for j := range Faults {
				if f := &Faults[j]; f.Name == name {
					require.Equal(t, i == 0, f.Met(OfFile(g, id)), "%s %d", name, i)
				}
			}
		}
	}
}
