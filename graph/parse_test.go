package graph

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// everything has each construct of the text form at least once, as Format writes it.
const everything = `graph "test net"
opset 17
opset com.microsoft 1
input x: f32[batch,3,"H/2 up",?]
input cond: bool[]
input scale: f32[2] = [0.5, -1e-07]
input any
input unranked: f32[...]
input untyped: undefined[2,3]
const w: f32[1,3,1,1] = [1, nan, -inf]
const half: f16[2] = [0x3c00, 0x8001]
const bits: f32[] = 0x7fc00001
const four: i4[3] = [-8, 7, -1]
const complex: c64[1] = [1, -2]
const none: i8[0] = []
const empty: i64[0] = []
const flags: bool[2] = [true, false]
const words: string[2] = ["a\"b", "\xff"]
y: f32[batch,4,1,1] = Conv(x, w) {strides=[1, 1], auto_pad="SAME_UPPER", alpha=0.5, beta=2.0, group=1} "conv one"
a, _, b = com.microsoft::Odd@v2(y, _, any) {floats=[1.0, nan], none=floats[], ints=[], s=["a", ""], t=i64[2] [3, 4], ts=[f32[] 1, u8[1] [255]], r=ref(ints, axes), o=raw("\x00\x01")}
if: f32[2] = If(cond) {then_branch=graph then {
  const one: f32[1] = [1]
  sum = Add(a, one)
  output sum
}, else_branch=graph "" {
  inner = Loop(cond, cond) {body=graph "" {
    input i: i64[]
    deep = Mul(b, i)
    output deep
  }, more=[graph g {
    output b: f32[1]
  }]}
  output inner
}}
output if
output x
output y
`

func TestFormatWritesWhatParseReads(t *testing.T) {
	g, err := Parse(everything)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	// Constants are written by first use, then by name.
	once := Format(g)
	again, err := Parse(once)
	require.NoError(t, err, once)
	require.Equal(t, once, Format(again))
	require.ElementsMatch(t, strings.Split(everything, "\n"), strings.Split(once, "\n"))
}

func TestFormatIsIndependentOfStorage(t *testing.T) {
	g, err := Parse(`
		input x: f32[1,4]
		const one: f32[] = 1; const two: f32[] = 2
		a = Add(x, one); b = Mul(x, two); c = Sub(a, b); unused = Neg(c)
		output c`)
	require.NoError(t, err)
	want := Format(g)
	for seed := range uint64(10) {
		g.Shuffle(rand.New(rand.NewPCG(seed, 0)).Perm(g.NumNodes()))
		require.NoError(t, g.Check())
		require.Equal(t, want, Format(g))
		id, ok := g.LookupNode("b")
		require.True(t, ok)
		require.Equal(t, "Mul", g.Node(id).Op)
	}
}

func TestParseShorthands(t *testing.T) {
	g, err := Parse(`
		graph short   # a comment
		y = Relu(x); x = Neg(in) {  # names may be used before they are defined
			a = [1,
			     2.5],
		}
		input in: f32[2], other   # several at once
		const n: f32[3] = normal(seed=1, std=0.1)
		const u: u8[1000] = uniform(low=0, high=256)
		const f: f64[2,2] = fill(0.5)
		const i: i32[4] = iota(start=3, step=-2)
		output y: f32[2]`)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	require.Equal(t, int64(17), g.Opset(""))
	constant := func(name string) *tensor.Tensor {
		id, ok := g.Lookup(name)
		require.True(t, ok, name)
		return g.Const(id)
	}
	require.Equal(t, []int32{3, 1, -1, -3}, constant("i").Data)
	require.Equal(t, []float64{0.5, 0.5, 0.5, 0.5}, constant("f").Data)
	low, high := uint8(255), uint8(0)
	for _, v := range constant("u").Data.([]uint8) {
		low, high = min(low, v), max(high, v)
	}
	require.Less(t, low, uint8(5))
	require.Greater(t, high, uint8(250))
	n, _ := g.LookupNode("x")
	require.Equal(t, []float32{1, 2.5}, g.Node(n).Attr("a").Floats)
	y, _ := g.Lookup("y")
	require.Equal(t, "f32[2]", FormatType(g.Value(y).DType, g.Value(y).Shape))
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"y = Relu(x)\noutput y", `line 1, column 10: value "x" is not defined`},
		{"input x; input x", `line 1, column 16: value "x" is defined twice`},
		{"input x\ny = Relu(x)\ny = Relu(x)", `line 3, column 1: value "y" is defined twice`},
		{"input x\ny, y = Split(x)", `defined twice`},
		{"const c: f32[2] = [1]", `line 1, column 19: 1 values where f32 needs 2`},
		{"const c: i8[2] = [1, 128]", `line 1, column 22: "128": value out of range`},
		{"const c: f32[2] = ...", `line 1, column 19: the data of this constant were left out`},
		{"const c: f32[N] = [1]", `line 1, column 7: a constant cannot have type f32[N]`},
		{"const c: undefined[] = 1", `a constant cannot have type undefined[]`},
		{"const c: f32[99999999999,9999999999,99999999999] = fill(1)", `elements`},
		{"const c: f32[4000000000] = fill(1)", `elements`},
		{"const c: i8[2] = fill(200)", `generated value 200 does not fit i8`},
		{"const c: f32[2] = normal(sigma=2)", `normal has no parameter "sigma"`},
		{"const c: string[1] = [a]", `expected a value of type string, found a`},
		{"const c: f99[1] = [1]", `line 1, column 10: expected an element type, found f99`},
		{"const c: f32[1,-1] = [1]", `expected a dimension, found -1`},
		{"input x: f32[1,...]", `"..." stands for all dimensions`},
		{"const \"\": f32[] = 1", `a value needs a name`},
		{"y = Relu(x", `expected ",", found end of text`},
		{"input x\ny = Relu(x) {a=1, a=2}", `attribute "a" is given twice`},
		{"input x\ny = Relu(x) {a=[1, \"s\"]}", `list mixes int and "s"`},
		{"input x\ny = Relu(x) {a=9223372036854775808}", `value out of range`},
		{"input x\na = Relu(x) \"n\"\nb = Relu(x) \"n\"", `line 3, column 13: node name "n" is empty or taken`},
		{"input x\ny: f32[2] = Relu(x)\noutput y: f32[3]", `value "y" has type f32[2], not f32[3]`},
		{"input x x", `expected the end of the statement, found x`},
		{"opset 13; opset 14", `opset of domain "" is stated twice`},
		{"input x; graph late", `the graph line must come first`},
		{"\"abc", `string is not closed`},
		{"input x $", `unexpected character '$'`},
		{"input c\ny = If(c) {then_branch=graph { output z }}", `line 2, column 39: value "z" is not defined`},
		{"input c\ny = If(c) {then_branch=graph { output c", `subgraph is not closed`},
		{"y = A() {g=" + strings.Repeat("graph { z = B() {g=", 100), "more than 64 subgraphs within each other"},
		{"y = A() {g=" + strings.Repeat("graph { z = B() {g=", 10_000), "more than 64 subgraphs within each other"},
		{"y = A() {g=" + strings.Repeat("[", 10_000), "expected"},
		{"const c: f32[1] = " + strings.Repeat("[", 10_000), "expected a value of type f32, found ["},
		{strings.Repeat("{", 10_000), "expected"},
	} {
		_, err := Parse(c.text)
		require.ErrorContains(t, err, c.want, c.text)
		var pe *ParseError
		require.ErrorAs(t, err, &pe, c.text)
	}
}

func TestFormatShortLeavesOutBigConstants(t *testing.T) {
	g, err := Parse("const c: f32[100] = fill(1)\ny = Relu(c)\noutput y")
	require.NoError(t, err)
	require.Contains(t, FormatShort(g, 99), "const c: f32[100] = ...\n")
	require.NotContains(t, FormatShort(g, 100), "...")
	id, _ := g.LookupNode("y")
	require.Equal(t, "y = Relu(c)", FormatNode(g, id))
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add("input x: f32[N]; y = Add(x, _) {t=f32[2] [1, 2]}; output y")
	f.Add("const c: i4[3] = [1, 2, 3]; y = If(c) {then_branch=graph { output c }}; output y")
	f.Add("const c: u8[3] = uniform(low=0, high=9)\nconst d: f64[2] = normal(seed=2)")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := parse(text, 1<<16)
		if err != nil {
			return
		}
		once := Format(g)
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if twice := Format(again); twice != once {
			t.Fatalf("first:\n%s\nsecond:\n%s", once, twice)
		}
	})
}
