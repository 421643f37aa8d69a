package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/demo"
)

// TestATensorOfTwoPlans: a click on a row of Compare draws the tensor in both plans over one axis, with the figures that the command line
// has.
func TestATensorOfTwoPlans(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	command(t, dir, "calibrate", "glyphs.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "kl", "-o", "kl.plan.json")
	var diff struct {
		Differences []struct{ Node, At, What, A, B string }
	}
	require.NoError(t, json.Unmarshal([]byte(command(t, dir, "diff", "glyphs.plan.json", "kl.plan.json", "--json")), &diff))
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.view("Compare")
	p.choose("input[type=text]", "B", "kl.plan.json")
	p.click(".part button", "Show differing settings")
	p.until(`all("table.results tbody tr").length > 0`)
	for _, d := range diff.Differences {
		if d.What != "scale" || d.At != "in0" {
			continue
		}
		p.js(fmt.Sprintf(`all("table.results tbody tr").find((r) => r.textContent.includes(%s) && `+
			`r.textContent.includes("in0")).querySelector("button").click(), true`, quoted(d.Node)), nil)
		p.until(fmt.Sprintf(`one(".pair svg[role=img]", /A: .* levels .* apart. B: .* levels .* apart/) && one("h4", %s)`, quoted(d.Node+":in0")))
		p.until(`document.querySelectorAll(".pair line.side-A").length === 2 && document.querySelectorAll(".pair line.side-B").length === 2 && ` +
			`document.querySelectorAll(".pair .area").length === 1`)
		p.until(fmt.Sprintf(`all(".result table.results tr").some((r) => /^scale/.test(r.textContent) && r.cells[1].title === %q && `+
			`r.cells[2].title === %q)`, d.A, d.B))
		p.show(`document.querySelector(".pair")`)
		p.looked("pair")
		p.click("button", "in1")
		p.until(fmt.Sprintf(`one("h4", %s) && one("button[aria-pressed=true]", "in1")`, quoted(d.Node+":in1")))
		p.click("button", "Show this operator in the network")
		p.until(`one("nav.tabs button", "Network").getAttribute("aria-current") === "page"`)
		return
	}
	t.Fatal("the two plans have the same scales")
}

// TestTwoStructures: two plans of different networks say which operators only one of them has, in words, in a table and as colours;
// networks with nothing in common say so.
func TestTwoStructures(t *testing.T) {
	t.Parallel()
	dir := planned(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.onnx"), changed(t), 0o600))
	command(t, dir, "calibrate", "other.onnx", "--data", "data", "--platform", "trt_int8")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tiny.onnx"), tiny(t), 0o600))
	p := open(t, serve(t, dir, "glyphs.plan.json").url, desk)
	p.view("Compare")
	p.choose("input[type=text]", "B", "other.plan.json")
	p.click(".part button", "Show differing settings")
	p.until(`/\(1 under another name\); 0 only in A; 1 only in B; in both under another form: [0-9] of A, [0-9] of B\./.test(text())`)
	row := func(words string) {
		t.Helper()
		p.until(fmt.Sprintf(`all("table.results tbody tr").some((r) => [...r.cells].map((c) => c.textContent).join("|").startsWith(%s))`,
			quoted(words)))
	}
	row("other form|mix_swish|HardSwish|mix_swish|Relu|the same name, another type")
	row("only in B|–|–|<b>extra</b>|Abs")
	row("other name|mix|Conv|blend|Conv")
	p.show(`document.querySelector(".networks")`)
	p.until(`document.querySelectorAll(".networks canvas").length >= 2`)
	for _, legend := range []string{"in both (", "other form ("} {
		p.until(fmt.Sprintf(`[...document.querySelectorAll(".networks section")].every((s) => s.innerText.includes(%s))`, quoted(legend)))
	}
	p.until(`[...document.querySelectorAll(".networks section")].map((s) => s.innerText.includes("only in B (1)")).join() === "false,true"`)
	p.looked("structures")

	p.choose("input[type=text]", "B", "tiny.onnx")
	p.click(".part button", "Show differing settings")
	p.until(`/The two networks are too different to be compared operator by operator: ` +
		`0 of [0-9]+ and 2 operators are in both\./.test(text()) && !document.querySelector(".networks, table.results")`)
	p.looked("different")
}

// changed is the demo's model with one operator more, one under another name and one of another type.
func changed(t *testing.T) []byte {
	t.Helper()
	m, _, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	g := m.Graph.Clone()
	node := func(name string) *graph.Node {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		return g.Node(id)
	}
	require.NoError(t, g.RenameNode(node("mix").ID, "blend"))
	node("mix_swish").Op = "Relu"
	at := node("pool2").Outputs[0]
	y, err := g.AddValue(graph.Value{Name: "extra_out", DType: g.Value(at).DType})
	require.NoError(t, err)
	g.ReplaceUses(at, y)
	_, err = g.AddNode(graph.Node{Name: "<b>extra</b>", Op: "Abs", Inputs: []graph.ValueID{at}, Outputs: []graph.ValueID{y}})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, m.WithGraph(g).Write(&b))
	return b.Bytes()
}

// tiny is a network that has nothing of the demo's but its input.
func tiny(t *testing.T) []byte {
	t.Helper()
	m, _, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	g := graph.New("tiny", 17)
	in := m.Graph.Value(m.Graph.Inputs[0])
	add := func(name string) graph.ValueID {
		v, err := g.AddValue(graph.Value{Name: name, DType: in.DType, Shape: in.Shape})
		require.NoError(t, err)
		return v
	}
	x, y, z := add(in.Name), add("y"), add("z")
	g.Inputs, g.Outputs = []graph.ValueID{x}, []graph.ValueID{z}
	for i, op := range []string{"Tanh", "Exp"} {
		_, err := g.AddNode(graph.Node{Name: op, Op: op, Inputs: []graph.ValueID{[]graph.ValueID{x, y}[i]},
			Outputs: []graph.ValueID{[]graph.ValueID{y, z}[i]}})
		require.NoError(t, err)
	}
	var b bytes.Buffer
	require.NoError(t, m.WithGraph(g).Write(&b))
	return b.Bytes()
}
