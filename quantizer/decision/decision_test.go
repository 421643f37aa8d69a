package decision_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Parsing what was encoded gives the same decision, and the keys stand in one order whatever order they were written in.
func TestOneForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"by":"user","select":["a"],"domain":"fp32"}`:                  `{"by":"user","select":"a","domain":"fp32"}`,
		`{"border_cost":26,"dispatcher":"conservative", "by":"target"}`: `{"by":"target","dispatcher":"conservative","border_cost":26}`,

		`{"by":"calibrate","observer":"mse","per_tensor":false}`:                                                                       ``,
		`{"by":"user","select":"/attn/","weights":"int4-sym-g32","activations":"int16-sym-tensor"}`:                                    ``,
		`{"by":"user","select":"a:in0","scale":0.1,"zero_point":0}`:                                                                    ``,
		`{"by":"user","select":"a:weight","scale":[0.1,0.25],"zero_point":[0,1],"freeze":true}`:                                        ``,
		`{"by":"search","goal":"nsr 0.01","select":["stem","a<b"],"domain":"fp32","evidence":{"samples":8,"error":1e-3},"after":"ab"}`: ``,
		`{"by":"tune","method":"bias","params":{"rounds":2},"overlay":"sha256:ab","evidence":{},"after":"cd"}`:                         ``,
		`{"by":"user","unset":[3]}`: ``,
		`{"by":"import"}`:           ``,
		`{"by":"user","select":"*","observer":"percentile(0.999)"}`: ``,
	} {
		d, err := decision.Parse("d", []byte(in))
		require.NoError(t, err, in)
		b, err := d.Encode()
		require.NoError(t, err)
		if want == "" {
			want = in
		}
		require.Equal(t, want, string(b))
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		`{"by":"nobody"}`:                                                   `by is "nobody"`,
		`{"by":"user","selct":"a"}`:                                         `unknown key "selct"`,
		`{"by":"user","by":"user"}`:                                         `repeated`,
		`{"by":"user","select":[],"domain":"fp32"}`:                         `an empty selector`,
		`{"by":"user","select":"a"}`:                                        `nothing is decided for a`,
		`{"by":"user","domain":"fp32"}`:                                     `domain needs a select`,
		`{"by":"user","select":"a","domain":"fp64"}`:                        `unknown domain "fp64"`,
		`{"by":"user","select":"a","weights":"uint3-banana"}`:               `uint3-banana`,
		`{"by":"user","select":"a","observer":"guess"}`:                     `unknown observer "guess"`,
		`{"by":"user","select":"a","observer":"fixed"}`:                     `decide a scale`,
		`{"by":"user","select":"a","observer":"kl(3)"}`:                     `a number in parentheses is for percentile and robust`,
		`{"by":"user","select":"a","observer":"percentile(2)"}`:             `only above 0 and up to 1`,
		`{"by":"user","select":"a:in0","scale":0}`:                          `scale 0`,
		`{"by":"user","select":"a:in0","scale":[1,2],"zero_point":[1,2,3]}`: `2 scales and 3 zero points`,
		`{"by":"user","select":"a","divisor":-1}`:                           `not a number from 0 on`,
		`{"by":"user","select":"a","border_cost":1}`:                        `border_cost is of the whole plan`,
		`{"by":"user","select":"/(/","domain":"fp32"}`:                      `missing closing )`,
		`{"by":"user","unset":[0]}`:                                         `takes back #0`,
		`{"by":"user","unset":[1],"select":"a","domain":"int"}`:             `decides something itself`,
		`{"by":"tune","method":"bias","overlay":"x"}`:                       `not sha256`,
		`{"by":"tune","method":"bias","evidence":3}`:                        `objects`,
		`{"by":"user"}{}`:                                                   `something follows`,
	} {
		_, err := decision.Parse("d", []byte(in))
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "\n")
	}
	list := []decision.Decision{{By: decision.ByCalibrate}, {By: decision.ByUser, Unset: []int{1}}}
	require.ErrorContains(t, decision.CheckList(list), "#2 takes back #1, a default")
	list[1].Unset = []int{2}
	require.ErrorContains(t, decision.CheckList(list), "does not come before it")
}

// What qwb set is given and what the log shows are the same words.
func TestWords(t *testing.T) {
	words := strings.Fields("domain=int weights=int4-sym-g32 observer=percentile(0.99) scale=0.5;0.25 zero_point=0 per_tensor=false " +
		"divisor=127.5 freeze=true border_cost=0")
	p, err := decision.ParseProperties(words)
	require.NoError(t, err)
	require.Equal(t, words, p.Words())
	for in, want := range map[string]string{
		"domain":          `"domain" is not key=value`,
		"colour=red":      `unknown property "colour": one of domain, weights`,
		"scale=":          `has no value`,
		"scale=1;x":       `scale=1;x: positive numbers`,
		"domain=int8":     `one of [int fp32`,
		"freeze=yes":      `true or false`,
		"zero_point=1.5":  `integers`,
		"border_cost=NaN": `a number from 0 on`,
		"weights=int8":    `int8-sym-channel`,
	} {
		_, err := decision.ParseProperties([]string{in})
		require.ErrorContains(t, err, want)
	}
	_, err = decision.ParseProperties([]string{"domain=int", "domain=int"})
	require.ErrorContains(t, err, "given twice")
}

// Every field of Properties has a row, under its JSON name and in its place.
func TestRows(t *testing.T) {
	all := "domain=int weights=int8-sym-channel activations=uint8-asym-tensor observer=kl scale=1 zero_point=2 reduce_range=true " +
		"per_tensor=true divisor=3 freeze=true align=none dispatcher=x border_cost=4"
	p, err := decision.ParseProperties(strings.Fields(all))
	require.NoError(t, err)
	require.Len(t, strings.Fields(all), len(decision.All()))
	b, err := (&decision.Decision{By: decision.ByUser, Properties: p}).Encode()
	require.NoError(t, err)
	at := 0
	for _, row := range decision.All() {
		i := strings.Index(string(b), fmt.Sprintf("%q:", row.Name))
		require.Greater(t, i, at, row.Name)
		at = i
	}
}

func TestSelectors(t *testing.T) {
	g := parse(t, network)
	set := tqc.NewSet(g)
	for text, want := range map[string]string{
		" conv1 , relu1 ":     "conv1 relu1",
		"/^relu/":             "relu1",
		"/1$/,pool":           "conv1 relu1 pool",
		`/conv[1\,2]$/`:       "conv1 conv2",
		"!type:Conv":          "relu1 sig mul pool",
		"name:conv1":          "conv1",
		"pattern:Swish,first": "conv1 sig mul",
		"type:Conv:out0":      "conv1:out0 conv2:out0",
		"conv1:bias":          "conv1:in2",
		"name:conv1:weight":   "conv1:in1",
	} {
		s, err := decision.ParseSelector(text)
		require.NoError(t, err, text)
		m, err := s.Match(g, set)
		require.NoError(t, err, text)
		var names []string
		for _, id := range m.Nodes {
			names = append(names, g.Node(id).Name)
		}
		for _, id := range m.Slots {
			sl := set.Slot(id)
			names = append(names, g.Node(sl.Node).Name+":"+decision.At(sl.Kind, sl.Index))
		}
		require.Equal(t, want, strings.Join(names, " "), text)
	}
	for text, want := range map[string]string{
		"":               `selector "" is empty`,
		"//":             `selector "//" is empty`,
		"a,,b":           `selector "" is empty`,
		"!":              `is empty`,
		":in0":           `is empty`,
		"/(/":            "missing closing )",
		"type:":          `names no operator type`,
		"/a{2001}/":      "invalid repeat count",
		"pattern:banana": `there is no pattern "banana": one of attention`,
		"input:x:in0":    `a tensor has no slots`,
	} {
		_, err := decision.ParseSelector(text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"conv4":         `selector "conv4" matches no node`,
		"Conv":          `selector "Conv" matches no node; did you mean "conv1"?`,
		"/^x/":          `selector "/^x/" matches no node`,
		"type:conv":     `selector "type:conv" matches no node; did you mean "type:Conv"?`,
		"type:Covn":     `selector "type:Covn" matches no node; did you mean "type:Conv"?`,
		"conv1,!conv4":  `selector "!conv4" matches no node`,
		"conv1:in7":     `matches no input or output`,
		"pool:weight":   `matches no input or output`,
		"input:nothing": `no operator reads a tensor "nothing"`,
		"output:x":      `no operator computes a tensor "x"`,
		"pattern:gelu":  `matches no node`,
	} {
		s, err := decision.ParseSelector(text)
		require.NoError(t, err, text)
		_, err = s.Match(g, set)
		require.ErrorContains(t, err, want, text)
	}
}

// A text that is an operator's name means that operator, whatever else it could mean.
func TestNamesComeFirst(t *testing.T) {
	for _, name := range []string{"/a, b/c", "/a/", "first", "a:in0", "type:Relu", "*", "!a", "input:x", "a,b", "\u2028"} {
		g := graph.New("", 17)
		in, err := g.AddValue(graph.Value{Name: "x"})
		require.NoError(t, err)
		for i, n := range []string{name, "a", "b"} {
			v, err := g.AddValue(graph.Value{Name: fmt.Sprint("v", i)})
			require.NoError(t, err)
			_, err = g.AddNode(graph.Node{Name: n, Op: "Relu", Inputs: []graph.ValueID{in}, Outputs: []graph.ValueID{v}})
			require.NoError(t, err)
		}
		s, err := decision.ParseSelector(name)
		require.NoError(t, err)
		m, err := s.Match(g, tqc.NewSet(g))
		require.NoError(t, err, name)
		require.Len(t, m.Nodes, 1, name)
		require.Equal(t, name, g.Node(m.Nodes[0]).Name)
	}
}

// Evidence goes stale when what it was gathered under is taken back, and when the inputs are others.
func TestStale(t *testing.T) {
	list := []decision.Decision{{By: decision.ByCalibrate}, {By: decision.ByUser, Select: decision.Select{"a"},
		Properties: decision.Properties{Domain: decision.FP32}}}
	after, err := decision.After(list, 2, "inputs")
	require.NoError(t, err)
	list = append(list, decision.Decision{By: decision.BySearch, Select: decision.Select{"b"},
		Properties: decision.Properties{Domain: decision.FP32}, After: after})
	stale := func(inputs string) []int {
		s, err := decision.Stale(list, inputs)
		require.NoError(t, err)
		return s
	}
	require.Empty(t, stale("inputs"))
	require.Equal(t, []int{2}, stale("others"))
	list = append(list, decision.Decision{By: decision.ByUser, Unset: []int{2}})
	require.Equal(t, []int{2}, stale("inputs"))
	list = append(list, decision.Decision{By: decision.ByUser, Unset: []int{4}})
	require.Empty(t, stale("inputs"), "taking the taking back back restores it")
	list = append(list, decision.Decision{By: decision.ByCalibrate, Properties: decision.Properties{Observer: "kl"}})
	require.Equal(t, []int{2}, stale("inputs"), "calibrated again")
}

func FuzzParseSelector(f *testing.F) {
	for _, s := range []string{"a,b", "/x/", "type:Conv", `a\,b`, "//", "/", "\\", "!a:in0", "input:x", "conv1:weight", "pattern:swish", "*"} {
		f.Add(s)
	}
	g, err := graph.Parse(network)
	if err != nil {
		f.Fatal(err)
	}
	graph.InferShapes(g)
	set := tqc.NewSet(g)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := decision.ParseSelector(text); err == nil {
			if m, err := s.Match(g, set); err == nil && len(m.Nodes)+len(m.Slots) == 0 {
				t.Fatal("nothing is selected and no error")
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"by":"user","select":["a","b"],"weights":"int4-sym-g32","scale":[1,2],"evidence":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := decision.Parse("d", src)
		if err != nil {
			return
		}
		b, err := d.Encode()
		if err != nil {
			return
		}
		again, err := decision.Parse("d", b)
		require.NoError(t, err, "%s", b)
		c, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(b), string(c))
	})
}
