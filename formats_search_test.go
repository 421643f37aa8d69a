package qwb

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/internal/work/search"
	"qwb/quantizer/tqc"
)

// mixed opens a calibrated plan and finds its units.
func mixed(t *testing.T, p *Project, formats ...string) (*planning.Change, *search.Mixture) {
	t.Helper()
	c, err := planning.NewChange(context.Background(), p.job(), 1)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	list, err := search.ParseFormats(formats)
	require.NoError(t, err)
	m, err := search.NewMixture(c.Derivation, c.Was, computing(c), list)
	require.NoError(t, err)
	return c, m
}

// computing lists the operators that a search ranks.
func computing(c *planning.Change) (nodes []graph.NodeID) {
	order, _ := c.Planned.Graph.Order()
	for _, id := range order {
		if sp := c.Planned.Graph.Node(id).Spec(); sp != nil && sp.Kind == graph.KindComputing && c.Was.Set.Domains[id] == tqc.DomainInt &&
			c.Was.Set.Fused[id] == graph.NoNode {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// describe writes a line for each unit: its operators, and its options with what they decide.
func describe(m *search.Mixture) string {
	var lines []string
	for _, u := range m.Units {
		var names []string
		for _, id := range u.Nodes {
			names = append(names, m.Start.Graph.Node(id).Name)
		}
		line := strings.Join(names, "+") + ":"
		for _, id := range u.Joins {
			names = append(names, m.Start.Graph.Node(id).Name)
		}
		for _, o := range u.Options {
			line += " " + o.Format
			for i, p := range o.Each {
				if !p.Empty() {
					line += fmt.Sprintf(" [%s %s]", names[i], strings.Join(p.Words(), " "))
				}
			}
			line += ";"
		}
		lines = append(lines, strings.TrimSuffix(line, ";"))
	}
	return strings.Join(lines, "\n")
}

// joined has two branches whose ends a Concat joins, and a Gemm behind it.
const joined = `opset 17
input x: f32[N,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[8,8,3,3] = normal(seed=2, std=0.2)
const w3: f32[8,8,1,1] = normal(seed=3, std=0.4)
const w4: f32[40,16] = normal(seed=4, std=0.3)
const w5: f32[10,40] = normal(seed=5, std=0.3)
a = Conv(x, w1) {pads=[1,1,1,1]} "stem"
ra = Relu(a) "relu"
l = Conv(ra, w2) {pads=[1,1,1,1]} "left"
r = Conv(ra, w3) "right"
c = Concat(l, r) {axis=1} "join"
p = GlobalAveragePool(c) "pool"
f = Flatten(p) "flatten"
h = Gemm(f, w4) {transB=1} "hidden"
y = Gemm(h, w5) {transB=1} "head"
output y`

func TestUnitsAndTheirFormats(t *testing.T) {
	p := placeOf(t, joined)
	formatsPlatform(t, p)
	for _, c := range []struct{ platform, want string }{{"formats.yaml", `
stem: int8; fp32 [stem domain=fp32]; fp16 [stem domain=fp16]; int16 [stem activations=uint16-asym-tensor]; int4 [stem weights=int4-sym-channel]; e4m3 [stem weights=e4m3-sym-channel activations=e4m3-sym-tensor]
left+right: int8; fp32 [left domain=fp32] [right domain=fp32]; fp16 [left domain=fp16] [right domain=fp16]; int16 [left activations=uint16-asym-tensor] [right activations=uint16-asym-tensor] [join activations=uint16-asym-tensor]; int4 [left weights=int4-sym-channel] [right weights=int4-sym-channel]; e4m3 [left weights=e4m3-sym-channel activations=e4m3-sym-tensor] [right weights=e4m3-sym-channel activations=e4m3-sym-tensor] [join activations=e4m3-sym-tensor]
hidden: int8; fp32 [hidden domain=fp32]; fp16 [hidden domain=fp16]; int16 [hidden activations=uint16-asym-tensor]; int4 [hidden weights=int4-sym-channel]; e4m3 [hidden weights=e4m3-sym-channel activations=e4m3-sym-tensor]
head: int8; fp32 [head domain=fp32]; fp16 [head domain=fp16]; int16 [head activations=uint16-asym-tensor]; int4 [head weights=int4-sym-channel]; e4m3 [head weights=e4m3-sym-channel activations=e4m3-sym-tensor]`},
		// ONNX Runtime wants one type for all tensors of an operator, so that only weights can differ from what is around them.
		{"onnxruntime", `
stem: int8; fp32 [stem domain=fp32]; fp16 [stem domain=fp16]; int16 [stem weights=int16-sym-channel]; int4 [stem weights=int4-sym-channel]; e4m3 [stem weights=e4m3-sym-channel]
left+right: int8; fp32 [left domain=fp32] [right domain=fp32]; fp16 [left domain=fp16] [right domain=fp16]; int16 [left weights=int16-sym-channel] [right weights=int16-sym-channel]; int4 [left weights=int4-sym-channel] [right weights=int4-sym-channel]; e4m3 [left weights=e4m3-sym-channel] [right weights=e4m3-sym-channel]
hidden: int8; fp32 [hidden domain=fp32]; fp16 [hidden domain=fp16]; int16 [hidden weights=int16-sym-channel]; int4 [hidden weights=int4-sym-channel]; e4m3 [hidden weights=e4m3-sym-channel]
head: int8; fp32 [head domain=fp32]; fp16 [head domain=fp16]; int16 [head weights=int16-sym-channel]; int4 [head weights=int4-sym-channel]; e4m3 [head weights=e4m3-sym-channel]`},
		{"trt_int8", `
stem: int8; fp32 [stem domain=fp32]; fp16 [stem domain=fp16]; e4m3 [stem weights=e4m3-sym-tensor activations=e4m3-sym-tensor]
left: int8; fp32 [left domain=fp32]; fp16 [left domain=fp16]; e4m3 [left weights=e4m3-sym-tensor activations=e4m3-sym-tensor]
right: int8; fp32 [right domain=fp32]; fp16 [right domain=fp16]; e4m3 [right weights=e4m3-sym-tensor activations=e4m3-sym-tensor]
hidden: int8; fp32 [hidden domain=fp32]; fp16 [hidden domain=fp16]; int4 [hidden weights=int4-sym-g64]; e4m3 [hidden weights=e4m3-sym-tensor activations=e4m3-sym-tensor]
head: int8; fp32 [head domain=fp32]; fp16 [head domain=fp16]; int4 [head weights=int4-sym-g64]; e4m3 [head weights=e4m3-sym-tensor activations=e4m3-sym-tensor]`}} {
		_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: c.platform, BorderCost: new(float64),
			Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
		require.NoError(t, err)
		_, m := mixed(t, p, "fp32", "fp16", "int16", "int8", "int4", "e4m3")
		require.Equal(t, strings.TrimPrefix(c.want, "\n"), describe(m), c.platform)
	}
}

// placeOf is place with another network.
func placeOf(t *testing.T, text string) *Project {
	t.Helper()
	p := place(t, new(Memory), "m", 3)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, text)}).Write(&b))
	p.job().Files().(*Memory).Write("m.onnx", b.Bytes())
	return p
}

// What was decided about operators and tensors stays as it is.
func TestDecidedOperatorsKeepTheirFormat(t *testing.T) {
	ctx := context.Background()
	p := placeOf(t, joined)
	formatsPlatform(t, p)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "formats.yaml", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	for selector, word := range map[string]string{"stem": "domain=int", "left": "activations=int16-sym-tensor",
		"hidden": "weights=int8-sym-tensor", "head:weight": "scale=0.01"} {
		words := []string{word}
		if word == "scale=0.01" {
			words = []string{"scale=" + strings.TrimSuffix(strings.Repeat("0.01;", 10), ";")}
		}
		_, _, err := p.Set(ctx, selector, words, 1)
		require.NoError(t, err)
	}
	_, m := mixed(t, p, "fp32", "fp16", "int16", "int4")
	require.Equal(t, strings.TrimPrefix(`
stem: int8; int4 [stem weights=int4-sym-channel]
left+right: int16; fp32 [left domain=fp32] [right domain=fp32]; fp16 [left domain=fp16] [right domain=fp16]; int4 [left weights=int4-sym-channel] [right weights=int4-sym-channel]
hidden: int8; fp32 [hidden domain=fp32]; fp16 [hidden domain=fp16]; int16 [hidden activations=uint16-asym-tensor]
head: int8; fp32 [head domain=fp32]; fp16 [head domain=fp16]; int16 [head activations=uint16-asym-tensor]`, "\n"), describe(m))
}

// choose gives units formats by name.
func choose(m *search.Mixture, t *testing.T, formats map[string]string) []int {
	t.Helper()
	choice := make([]int, len(m.Units))
	for unit, format := range formats {
		i := slices.IndexFunc(m.Units, func(u search.MixedUnit) bool { return m.Start.Graph.Node(u.Nodes[0]).Name == unit })
		require.GreaterOrEqual(t, i, 0, unit)
		k := slices.IndexFunc(m.Units[i].Options, func(o search.MixedOption) bool { return o.Format == format })
		require.GreaterOrEqual(t, k, 0, format)
		choice[i] = k
	}
	return choice
}

func TestMixtureDerives(t *testing.T) {
	ctx := context.Background()
	p := placeOf(t, joined)
	formatsPlatform(t, p)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "formats.yaml", BorderCost: new(float64),
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	c, m := mixed(t, p, "fp32", "fp16", "int16", "int4", "e4m3", "weights=int4-sym-g3")
	base := c.Planned.Plan.Decisions
	domains := func(out *planning.Derived) string {
		var words []string
		for _, id := range m.Bound.Order {
			words = append(words, out.Graph.Node(id).Name+" "+out.Set.Domains[id].String())
		}
		return strings.Join(words, ", ")
	}
	// The Concat, the pool and the Flatten read nothing but half precision.
	choice := choose(m, t, map[string]string{"left": "fp16"})
	out, list, err := m.Derive(ctx, base, "nsr 1", choice)
	require.NoError(t, err)
	require.Equal(t, "stem INT8, relu INT8, left FP16, right FP16, join FP16, pool FP16, flatten FP16, hidden INT8, head INT8", domains(out))
	require.Len(t, list, 1)
	require.Equal(t, "search: nsr 1: left,right,join,pool,flatten domain=fp16", list[0].String())
	require.Equal(t, choice, m.Chosen(out, choice))

	// A tensor between two formats has the wider one, in whatever order they are asked for.
	choice = choose(m, t, map[string]string{"stem": "e4m3", "left": "int16", "hidden": "weights=int4-sym-g3", "head": "int4"})
	out, list, err = m.Derive(ctx, base, "", choice)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, "search: left,right,join activations=uint16-asym-tensor", list[3].String())
	format := func(node string, weight bool) string {
		id, _ := out.Graph.LookupNode(node)
		s := out.Set.Input(id, 0)
		if weight {
			s = out.Set.Input(id, 1)
		}
		scheme, err := tqc.SchemeOf(out.Set.Slot(s).Config)
		require.NoError(t, err)
		return scheme.String()
	}
	require.Equal(t, []string{"e4m3-sym-tensor", "uint16-asym-tensor", "uint16-asym-tensor", "uint8-asym-tensor"},
		[]string{format("stem", false), format("left", false), format("right", false), format("head", false)})
	require.Equal(t, []string{"e4m3-sym-channel", "int8-sym-channel", "int4-sym-g3", "int4-sym-channel"},
		[]string{format("stem", true), format("left", true), format("hidden", true), format("head", true)})

	// Nothing chosen: as it is.
	out, list, err = m.Derive(ctx, base, "", make([]int, len(m.Units)))
	require.NoError(t, err)
	require.Empty(t, list)
	require.Same(t, m.Start, out)
}

// What the solver is told of bytes and work is what the plan costs when one unit changes.
func TestUnitCostsAreThoseOfThePlan(t *testing.T) {
	ctx := context.Background()
	p := placeOf(t, joined)
	formatsPlatform(t, p)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "formats.yaml", BorderCost: new(float64),
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	device, err := analysis.ParseDevice([]byte("name: d\ngops: {int8: 4, fp32: 1}\nread: [{bytes: 1, gbps: 1}]\nborder_ns: 1\n" +
		"overhead_us: 1\n"))
	require.NoError(t, err)
	c, m := mixed(t, p, "fp32", "fp16", "int16", "int4", "weights=int4-sym-g3")
	base := c.Planned.Plan.Decisions
	asked := map[string]int{}
	for _, what := range []Costing{{What: "macs"}, {What: "bytes"}, {What: "time", Device: device}} {
		units, err := m.Measured(ctx, base, what, func(_ context.Context, list []search.Candidate) (by []map[graph.NodeID][]float64, _ error) {
			for _, one := range list {
				asked[one.Format]++
				losses := map[graph.NodeID][]float64{}
				for i, id := range computing(c) {
					losses[id] = []float64{float64(i + 1), 0}
				}
				by = append(by, losses)
			}
			return by, nil
		})
		require.NoError(t, err)
		require.Equal(t, "left and 1 more", units[1].Name)
		require.Equal(t, []float64{2 + 3, 0}, units[1].Options[0].Parts)
		require.Empty(t, units[1].Options[1].Parts, "fp32")
		start, err := analysis.CostOf(m.Start.Graph, m.Start.Set, m.D.Target, device)
		require.NoError(t, err)
		for i := range m.Units {
			for k := range m.Units[i].Options {
				choice := make([]int, len(m.Units))
				choice[i] = k
				out, _, err := m.Derive(ctx, base, "", choice)
				require.NoError(t, err)
				cost, err := analysis.CostOf(out.Graph, out.Set, m.D.Target, device)
				require.NoError(t, err)
				free := *m.D.Target // conversions hang on what the neighbours are
				free.BorderCost = 0
				want := what.Of(cost, &free) - what.Of(start, &free)
				got := units[i].Options[k].Cost - units[i].Options[0].Cost
				if m.Units[i].Options[k].Each[0].Domain != "" {
					got -= what.Conversions(m.D.Target, m.Elements(m.Units[i].Nodes[0]))
					if len(m.Units[i].Nodes) > 1 {
						got -= what.Conversions(m.D.Target, m.Elements(m.Units[i].Nodes[1]))
					}
				}
				name := fmt.Sprint(what.What, " ", units[i].Name, " ", units[i].Options[k].Name)
				switch {
				case what.What == "time":
					require.Positive(t, units[i].Options[k].Cost, name)
				case what.What == "macs" && units[i].Options[k].Name == "int16":
					require.GreaterOrEqual(t, want, got-1e-9, name) // others that read the tensor compute in it too
				default:
					require.InDelta(t, want, got, 1e-9, name)
				}
			}
		}
	}
	require.Equal(t, map[string]int{"": 3, "fp16": 3, "int16": 3, "int4": 3, "weights=int4-sym-g3": 3}, asked, "fp32 needs no measurement")
}

func TestFormatsThatAreNone(t *testing.T) {
	for text, message := range map[string]string{
		"int8,int8":               "--formats: int8 is there twice",
		"half":                    "--formats half: one of fp32, fp16",
		"int":                     "--formats int: one of",
		"observer=kl":             "--formats observer=kl: only domain, weights and activations are formats",
		"weights=int4":            "--formats weights=int4: weights=int4: scheme",
		"weights=int4-sym-g3+x=1": "unknown property",
	} {
		_, err := search.ParseFormats(strings.Split(text, ","))
		require.ErrorContains(t, err, message)
		require.ErrorAs(t, err, new(UsageError), text)
	}
}
