package graph

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// typeOf returns the type of a value after inference.
func typeOf(t *testing.T, g *Graph, name string) string {
	t.Helper()
	v := g.Value(ids(t, g, name)[0])
	return FormatType(v.DType, v.Shape)
}

func TestInferFollowsShapeComputations(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"flatten as exporters write it", `
			input x: f32[N,8,4,4]
			const zero: i64[] = 0; const ax: i64[1] = [0]; const rest: i64[1] = [-1]
			s = Shape(x); n = Gather(s, zero); u = Unsqueeze(n, ax); to = Concat(u, rest) {axis=0}
			y = Reshape(x, to)`, "f32[N,128]"},
		{"tokens of a transformer: batch times length", `
			input x: f32[B,T,64]
			const i0: i64[1] = [0]; const i1: i64[1] = [1]; const i2: i64[1] = [64]
			s = Shape(x); b = Gather(s, i0); t = Gather(s, i1); bt = Mul(b, t); to = Concat(bt, i2) {axis=0}
			flat = Reshape(x, to)
			const heads: i64[2] = [8, 8]
			back = Concat(b, t, heads) {axis=0}
			y = Reshape(flat, back)`, "f32[B,T,8,8]"},
		{"F.pad: the pads of the last axis first, reversed by slice and transpose", `
			input x: f32[N,3,10,20]
			const p: i64[4] = [1, 2, 3, 4]; const four: i64[1] = [4]; const two: i64[2] = [-1, 2]
			const start: i64[1] = [-1]; const end: i64[1] = [-9223372036854775807]; const ax: i64[1] = [0]; const step: i64[1] = [-1]
			zeros = ConstantOfShape(four) {value=i64[1] [0]}
			all = Concat(p, zeros) {axis=0}; m = Reshape(all, two)
			r = Slice(m, start, end, ax, step); tr = Transpose(r) {perm=[1, 0]}
			const flat: i64[1] = [-1]
			pads = Reshape(tr, flat); y = Pad(x, pads)`, "f32[N,3,17,23]"},
		{"upsampling by sizes computed in float", `
			input x: f32[N,3,H,16]
			const hw: i64[1] = [2]; const top: i64[1] = [4]; const zero: i64[1] = [0]; const scale: f32[2] = [2, 2]
			s = Shape(x); sp = Slice(s, hw, top); f = Cast(sp) {to=1}; g = Mul(f, scale); fl = Floor(g); i = Cast(fl) {to=7}
			nc = Slice(s, zero, hw); sizes = Concat(nc, i) {axis=0}
			y = Resize(x, _, _, sizes)`, `f32[N,3,"2*H",32]`},
		{"a size halved and doubled is the size", `
			input x: f32[H,6]
			const two: i64[1] = [2]; const rest: i64[1] = [-1]
			s = Shape(x); d = Mul(s, two); h = Div(d, two)
			y = Reshape(x, h)`, "f32[H,6]"},
		{"Where over Equal -1, as Expand is exported", `
			input x: f32[N,1]
			const want: i64[2] = [-1, 5]; const minus: i64[] = -1
			s = Shape(x); e = Equal(want, minus); to = Where(e, s, want)
			y = Expand(x, to)`, "f32[N,5]"},
		{"a range as long as a dimension", `
			input x: f32[N,1]
			const zero: i64[] = 0; const one: i64[] = 1
			s = Shape(x); n = Gather(s, zero)
			y = Range(zero, n, one)`, "i64[N]"},
		{"the product of a shape", `
			input x: f32[2,3,5]
			s = Shape(x); p = ReduceProd(s) {keepdims=1}
			y = Reshape(x, p)`, "f32[30]"},
		{"two halves joined", `
			input x: f32[N,10]
			a, b = Split(x) {axis=1}
			y = Concat(b, a, x) {axis=1}`, "f32[N,20]"},
	} {
		g, err := Parse(c.text)
		require.NoError(t, err, c.name)
		require.Empty(t, InferShapes(g), c.name)
		require.Equal(t, c.want, typeOf(t, g, "y"), c.name)
		require.Empty(t, InferShapes(g), "%s: a second time", c.name)
		require.Equal(t, c.want, typeOf(t, g, "y"), c.name)
	}
}

func TestInferControlFlow(t *testing.T) {
	g := parsed(t, `
		input c: bool[]
		input x: f32[N,4]
		const m: i64[] = 3
		const yes: bool[] = true
		either = If(c) {then_branch=graph { a = Relu(x); output a }, else_branch=graph { const k: f32[5,4] = fill(0); output k }}
		known = If(yes) {then_branch=graph { b = Neg(x); output b }, else_branch=graph { const k2: f32[7] = fill(0); output k2 }}
		last, all = Loop(m, yes, x) {body=graph {
			input i: i64[]; input go: bool[]; input v
			w = Add(v, x); row = ReduceSum(x) {keepdims=0}
			output go; output w; output row
		}}
		sum, each = Scan(x, known) {num_scan_inputs=1, body=graph {
			input acc; input slice
			next = Add(acc, slice); copy = Neg(slice)
			output next; output copy
		}}
		output either; output known; output last; output all; output sum; output each`)
	require.Empty(t, InferShapes(g))
	for name, want := range map[string]string{
		"either": "f32[?,4]", // N or 5
		"known":  "f32[N,4]", // the other branch is never taken
		"last":   "f32[...]", // v may have another shape in each round
		"all":    "f32[?]",   // a scalar of each round
		"sum":    "f32[N,4]",
		"each":   "f32[N,4]", // N slices of 4
	} {
		require.Equal(t, want, typeOf(t, g, name), name)
	}
}

func TestInferUsesRecordedTypesLast(t *testing.T) {
	g := parsed(t, `
		input x: f32[N,4]
		a: f32[8,4] = Relu(x)
		b: f32[8,3] = my.domain::Unknown(x)
		c = Relu(b)
		d: f32[8,5] = Relu(x)
		e: i64[?] = NonZero(a)
		f: i64[2,9] = NonZero(a)
		output c; output d; output e; output f`)
	errs := InferShapes(g)
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[0], ErrTypeConflict)
	require.EqualError(t, errs[0], `infer shapes: node "d" (Relu, f32[N,4]): output "d": recorded type differs from the inferred one: `+
		`f32[8,5], not f32[N,4]`)
	require.ErrorContains(t, errs[1], `i64[?], not i64[2,?]`)
	for name, want := range map[string]string{
		"a": "f32[N,4]",                  // what follows counts: the batch stays symbolic
		"b": "f32[8,3]", "c": "f32[8,3]", // nothing follows
		"d": "f32[N,4]",
		"f": "i64[2,9]", // only one dimension follows
	} {
		require.Equal(t, want, typeOf(t, g, name), name)
	}
}

func TestInferReportsEachNodeAndGoesOn(t *testing.T) {
	g := parsed(t, `
		input x: f32[2,3]
		const w: f32[4,4] = fill(0)
		bad = MatMul(x, w)
		after = Relu(bad)
		fine = Relu(x)
		output after; output fine`)
	errs := InferShapes(g)
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `infer shapes: node "bad" (MatMul, f32[2,3], f32[4,4]): inner dimensions of [2,3] and [4,4] differ`)
	require.Equal(t, "f32[2,3]", typeOf(t, g, "fine"))
	var ne *NodeError
	require.ErrorAs(t, errs[0], &ne)
}

func TestInferRefusesTensorsThatCannotExist(t *testing.T) {
	g := parsed(t, "input x: f32[8388608,4194304]\ninput n: f32[N,1048576,1048577]\ny = Relu(x)\noutput y\noutput n")
	errs := InferShapes(g)
	require.Len(t, errs, 2)
	require.ErrorContains(t, errs[0], "more than 2^40 elements")
	require.ErrorContains(t, errs[1], `value "n"`)
	g = parsed(t, "input x: f32[1048576,1048576]\ny = Concat(x, x) {axis=0}\noutput y")
	require.ErrorContains(t, InferShapes(g)[0], "more than 2^40 elements")
	g = parsed(t, "input x: f32[9223372036854775807,0]\ny = Flatten(x) {axis=0}\noutput y")
	require.Empty(t, InferShapes(g), "no elements, whatever the other axis says")
}

func TestInferNodeWithoutGraph(t *testing.T) {
	n := &Node{Op: "Reshape", Outputs: []ValueID{0}}
	out, err := n.Spec().InferNode(n, 13, []InferInput{
		{Present: true, DType: tensor.Float32, Shape: Static(2, 6)},
		{Present: true, DType: tensor.Int64, Shape: Static(2), Tensor: tensor.FromI64([]int64{3, -1}, 2)},
	})
	require.NoError(t, err)
	require.Equal(t, "f32[3,4]", FormatType(out[0].DType, out[0].Shape))
	_, err = n.Spec().InferNode(n, 13, nil)
	require.EqualError(t, err, "input 0 is missing")
	n = &Node{Op: "If", Outputs: []ValueID{0}}
	out, err = n.Spec().InferNode(n, 13, []InferInput{{Present: true, DType: tensor.Bool, Shape: Shape{}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Shape, "its subgraphs see nothing of the graph around them")
}

// Where MACs has no answer because shapes are open, MACsAtLeast counts open dimensions as 1 and tells a batch from the rest.
func TestMACsAtLeast(t *testing.T) {
	g := parsed(t, `
		input x: f32[?,4,10,10]
		input y: f32[1,4,?,10]
		input m: f32[?,6]
		input k: f32[5,?,6]
		input dark
		const w: f32[8,2,3,3] = normal(1)
		const wt: f32[4,3,2,2] = normal(1)
		const b: f32[6,7] = normal(1)
		const w4: f32[8,4,1,1] = normal(1)
		c = Conv(x, w) {group=2} "conv"
		d = ConvTranspose(x, wt) "up"
		e = Gemm(m, b) "gemm"
		f = MatMul(k, b) "matmul"
		h = Relu(c) "relu"
		i = Conv(y, w4) "wide"
		j = Conv(dark, w4) "dark"
		output d; output e; output f; output h; output i; output j`)
	require.Empty(t, InferShapes(g))
	for name, want := range map[string]struct {
		macs  int64
		known bool
	}{"conv": {8 * 8 * 8 * 2 * 9, true}, "up": {4 * 10 * 10 * 3 * 4, true}, "gemm": {6 * 7, true}, "matmul": {5 * 6 * 7, false},
		"relu": {0, true}, "wide": {10 * 8 * 4, false}} {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		macs, known := g.MACsAtLeast(id)
		require.Equal(t, want.macs, macs, name)
		require.Equal(t, want.known, known, name)
		_, exact := g.MACs(id)
		require.Equal(t, name == "relu", exact, name)
	}
	id, _ := g.LookupNode("dark")
	_, known := g.MACsAtLeast(id)
	require.False(t, known)
}

func TestElementsAtLeast(t *testing.T) {
	open := Dim{N: -1, Symbol: "N"}
	for _, c := range []struct {
		s    Shape
		want int64
	}{{nil, 1}, {Shape{}, 1}, {Static(2, 3), 6}, {Shape{open, {N: 3}, open}, 3}, {Shape{open, {N: 0}}, 0},
		{Static(1<<40, 1<<40), MaxElements}} {
		require.Equal(t, c.want, c.s.ElementsAtLeast(), c.s)
	}
}

func TestMACsAndBind(t *testing.T) {
	g := parsed(t, `
		input x: f32[N,3,H,8]
		const w: f32[16,3,3,3] = fill(0)
		const v: f32[16,1,3,3] = fill(0)
		const m: f32[64,10] = fill(0)
		c = Conv(x, w) {pads=[1, 1, 1, 1]}
		d = Conv(c, v) {group=16, strides=[2, 2], pads=[1, 1, 1, 1]}
		r = Relu(d)
		output r`)
	require.Empty(t, InferShapes(g))
	macs := func(name string) (int64, bool) {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		return g.MACs(id)
	}
	_, ok := macs("c")
	require.False(t, ok, "H is open")
	require.Empty(t, Bind(g, map[string]int64{"H": 8}))
	require.Equal(t, "f32[N,16,4,4]", typeOf(t, g, "d"))
	n, ok := macs("c")
	require.True(t, ok, "a symbolic batch counts as one sample")
	require.Equal(t, int64(16*8*8*3*3*3), n)
	n, _ = macs("d")
	require.Equal(t, int64(16*4*4*1*3*3), n)
	n, ok = macs("r")
	require.True(t, ok)
	require.Zero(t, n)
	require.Empty(t, Bind(g, map[string]int64{"N": 2}))
	n, _ = macs("c")
	require.Equal(t, int64(2*16*8*8*3*3*3), n)
	spec := Spec("", "Conv")
	in := []InferInput{{Present: true, Shape: Static(1, 1<<30, 1<<10, 1)}, {Present: true, Shape: Static(1<<30, 1<<30, 1, 1)}}
	_, _, err := spec.CountMACs(&Node{Op: "Conv", Outputs: []ValueID{0}}, 13, in)
	require.ErrorContains(t, err, "multiply-accumulates")
}

func TestConvGeometryResolvesPadding(t *testing.T) {
	conv := func(op string, attrs ...Attr) *Node { return &Node{Op: op, Attrs: attrs} }
	geo, err := ConvGeometry(conv("Conv", Str("auto_pad", "SAME_UPPER"), Ints("strides", 2, 1)), Static(1, 1, 6, 6), Static(1, 1, 3, 4))
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, geo.PadBegin) // (3-1)*2+3-6 = 1 and (6-1)*1+4-6 = 3, the odd one at the end
	require.Equal(t, []int{1, 2}, geo.PadEnd)
	geo, err = ConvGeometry(conv("Conv", Str("auto_pad", "SAME_LOWER"), Ints("strides", 2, 1)), Static(1, 1, 6, 6), Static(1, 1, 3, 4))
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, geo.PadBegin)
	require.Equal(t, []int{0, 1}, geo.PadEnd)
	geo, err = ConvTransposeGeometry(conv("ConvTranspose", Ints("strides", 2, 2), Ints("output_shape", 6, 6), Str("auto_pad", "SAME_UPPER")),
		Static(1, 1, 3, 3), Static(1, 1, 3, 3))
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, geo.PadBegin) // 2*(3-1)+3-6 = 1, the odd one at the end
	require.Equal(t, []int{1, 1}, geo.PadEnd)
}

// FuzzInfer looks for panics and for results that a second inference contradicts.
func FuzzInfer(f *testing.F) {
	f.Add(everything)
	f.Add(twoBranches)
	f.Add("input x: f32[N,3,8,8]; const w: f32[4,3,3,3] = fill(1); c = Conv(x, w) {auto_pad=\"SAME_LOWER\", strides=[2,2]}; s = Shape(c); " +
		"y = Reshape(c, s)")
	f.Add("const p: i64[2] = [1, -1]; input x: f32[2,H]; y = Reshape(x, p); z = Slice(x, p, p, p, p); q, r = Split(x, p); " +
		"t = Transpose(y) {perm=[1,0]}")
	f.Add("input x: f32[2,3]; e = Einsum(x, x) {equation=\"...ij,kj->...ik\"}; g = Gemm(x, x) {transB=1}; k, l = TopK(x, x); " +
		"m = MaxPool(x) {kernel_shape=[2]}")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parse(text, 1<<12)
		if err != nil || strings.Count(text, "(") > 50 {
			return
		}
		InferShapes(g)
		first := FormatShort(g, 0)
		InferShapes(g)
		if again := FormatShort(g, 0); again != first {
			t.Fatalf("not stable:\n%s\n%s", first, again)
		}
		for _, id := range g.Nodes() {
			g.MACs(id)
			g.Passive(id)
		}
	})
}
