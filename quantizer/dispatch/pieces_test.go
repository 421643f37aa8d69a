package dispatch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// What goes into a root, a quotient or a logarithm stays float on every platform and under every dispatcher, however it is written; what it
// is made of and what has nothing to do with it does not.
func TestPiecesOfRootsStayFloat(t *testing.T) {
	const head = "input x: f32[1,4,8,8]\nconst w: f32[8,4,3,3] = normal(1)\nconst wo: f32[8,8,1,1] = normal(2)\n" +
		"const two: f32[] = [2]\nconst half: f32[] = [0.5]\nconst neg: f32[] = [-0.5]\nconst eps: f32[] = [1e-6]\n" +
		"const shape: i64[2] = [8, 64]\nconst back: i64[4] = [1, 8, 7, 8]\nconst zero: i64[1] = [0]\nconst seven: i64[1] = [7]\n" +
		"const eight: i64[1] = [8]\n" + "c = Conv(x, w) {pads = [1, 1, 1, 1]} \"conv\"\nh = Relu(c) \"relu\"\n"
	const mean, tail = "= ReduceMean(%) {axes = [2, 3]}", "\ny = Conv(sd, wo) \"last\"\noutput y"
	of := func(v string) string { return strings.Replace(mean, "%", v, 1) }
	for name, c := range map[string]struct{ text, pieces string }{
		"mean of squares": {"q = Mul(h, h)\ne " + of("q") + "\nm " + of("h") + "\nmm = Mul(m, m)\nv = Sub(e, mm)\nsd = Sqrt(v)",
			"q e m mm v"},
		"other way round": {"m " + of("h") + "\nmm = Pow(m, two)\nq = Pow(h, two)\ne " + of("q") + "\nv = Sub(e, mm)\nr = Relu(v)\n" +
			"sd = Sqrt(r)", "m mm q e v r"},
		"centred": {"m " + of("h") + "\nd = Sub(h, m)\nq = Mul(d, d)\nv " + of("q") + "\ne = Add(v, eps)\nsd = Pow(e, half)",
			"m d q v e"},
		"sum of squares":     {"q = ReduceSumSquare(h) {axes = [2, 3]}\ne = Add(q, eps)\nsd = Sqrt(e)", "q e"},
		"norm in a quotient": {"n = ReduceL2(h) {axes = [2, 3]}\nm = ReduceMean(n) {axes = [1]}\ne = Add(m, eps)\nsd = Div(n, e)", "n m e"},
		"global response": {"q = Mul(h, h)\ns = ReduceSum(q) {axes = [2, 3]}\ng = Sqrt(s)\nm = ReduceMean(g) {axes = [1]}\nsd = Div(g, m)",
			"q s g m"},
		"inverse":    {"q = Mul(h, h)\nv " + of("q") + "\nr = Pow(v, neg)\nk " + of("h") + "\nsd = Mul(k, r)", "q v r"},
		"reciprocal": {"v " + of("h") + "\nsd = Reciprocal(v)", "v"},
		"linear attention": {"k = Reshape(h, shape)\nt = Transpose(k) {perm = [1, 0]}\nf = MatMul(k, t)\np = MatMul(f, k)\n" +
			"a = Slice(p, zero, seven, zero)\nb = Slice(p, seven, eight, zero)\ne = Add(b, eps)\no = Div(a, e)\n" +
			"sd = Reshape(o, back)", "f p b e o"},
		"log of a difference": {"a " + of("h") + "\nb = GlobalAveragePool(c)\nd = Sub(a, b)\nm = Max(d, eps)\nsd = Log(m)", "a b d m sd"},
		"log of a sum":        {"x1 = Exp(c)\ns = ReduceSum(x1) {axes = [2, 3]}\nsd = Log(s)", "x1 s sd"},
		"log of chances":      {"k " + of("h") + "\np = Softmax(k) {axis = 1}\nsd = Log(p)", "p sd"},
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, head+c.text+tail)
			for _, tg := range []target.Target{target.ONNX, target.ONNXRuntime, target.OpenVINO, target.TFLiteInt8, target.Pow2, target.QNN,
				target.NXP} {
				for _, s := range dispatch.Strategies {
					a, err := dispatch.Assign(g, free(tg), dispatch.Options{Strategy: s.Name})
					require.NoError(t, err)
					for _, n := range strings.Fields(c.pieces) {
						v, ok := g.Lookup(n)
						require.True(t, ok, n)
						require.True(t, a.Domains[g.Producer(v)].Float(), "%s %s %s", tg.Name, s.Name, n)
					}
					require.Equal(t, tqc.DomainInt, a.Domains[id(t, g, "conv")], "%s %s", tg.Name, s.Name)
					if tg.Name == "pow2_int8" && s.Name == "allin" && name == "mean of squares" { // unless somebody wants it otherwise
						forced := []dispatch.Forced{{Nodes: []graph.NodeID{id(t, g, "conv")}, Who: dispatch.ByUser, Domain: tqc.DomainInt}}
						v, _ := g.Lookup("q")
						forced[0].Nodes = append(forced[0].Nodes, g.Producer(v))
						a, err = dispatch.Assign(g, free(tg), dispatch.Options{Strategy: s.Name, Forced: forced})
						require.NoError(t, err)
						require.Equal(t, tqc.DomainInt, a.Domains[g.Producer(v)])
					}
				}
			}
		})
	}
}
