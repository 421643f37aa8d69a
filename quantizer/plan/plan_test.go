package plan_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

const network = `
input x: f32[1,3,4,4]
const w: f32[2,3,1,1] = normal(1)
const b: f32[2] = normal(2)
c: f32[1,2,4,4] = Conv(x, w, b) "conv"
r: f32[1,2,4,4] = Relu(c) "relu"
p: f32[1,2,4,4] = MaxPool(r) {kernel_shape=[1,1]} "pool"
s: f32[1,2,4,4] = Softmax(p) {axis=1} "soft"
output s
`

var (
	act = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: 0, QMax: 255},
		Observer: "minmax"}
	weight = tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: "minmax"}
	bias = tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 32, QMin: -1 << 31, QMax: 1<<31 - 1}}
)

func node(t *testing.T, g *graph.Graph, name string) graph.NodeID {
	id, ok := g.LookupNode(name)
	require.True(t, ok)
	return id
}

// configured returns the set of the network as calibration leaves it.
func configured(t *testing.T, g *graph.Graph) *tqc.Set {
	set := tqc.NewSet(g)
	conv, relu, pool := node(t, g, "conv"), node(t, g, "relu"), node(t, g, "pool")
	for _, id := range []graph.NodeID{conv, relu, pool} {
		set.Domains[id], set.Why[id] = tqc.DomainInt, "conservative"
	}
	set.Why[node(t, g, "soft")] = `user: /so<f>t\/`
	set.Fused[relu] = conv
	for _, s := range []tqc.SlotID{set.Input(conv, 0), set.Output(conv, 0), set.Input(relu, 0), set.Output(relu, 0), set.Input(pool, 0),
		set.Output(pool, 0)} {
		require.NoError(t, set.Configure(s, act))
	}
	require.NoError(t, set.Configure(set.Input(conv, 1), weight))
	require.NoError(t, set.Configure(set.Input(conv, 2), bias))
	set.Slot(set.Input(conv, 1)).Weight, set.Slot(set.Input(conv, 2)).Weight = true, true
	out := set.Output(relu, 0)
	require.NoError(t, set.Dominate(set.Output(conv, 0), out))
	require.NoError(t, set.Dominate(set.Input(relu, 0), out))
	require.NoError(t, set.Dominate(set.Input(pool, 0), out))
	require.NoError(t, set.Borrow(set.Output(pool, 0), out))
	require.NoError(t, set.Advance(set.Input(conv, 2), tqc.PassiveInit))
	require.NoError(t, set.Render(set.Input(conv, 0), tqc.Params{Scale: []float32{0.1}, ZeroPoint: []int32{7}}))
	require.NoError(t, set.Render(set.Input(conv, 1), tqc.Params{Scale: []float32{1.0 / 3, 3e-12}, ZeroPoint: []int32{0, 0}}))
	require.NoError(t, set.Render(set.Input(conv, 2), tqc.Params{Scale: []float32{0.1 / 3, 1e-30}, ZeroPoint: []int32{0, 0}}))
	require.NoError(t, set.Render(out, tqc.Params{Scale: []float32{0.02}, ZeroPoint: []int32{0}}))
	set.Slot(out).Observer = "kl"
	return set
}

func meta() plan.Meta {
	return plan.Meta{Model: plan.File{Path: "m.onnx", SHA256: "ab"}, Data: plan.Data{Paths: []string{"images"}, Hash: "cd"},
		Preprocess: plan.Preprocess{Scale: 1, Mean: plan.Channels{127.5}}, Samples: 3, Seed: 1, Ranges: "12", Platform: "onnxruntime",
		Profile: "ort",
		Target:  plan.Target{SHA256: "ef"}, Warnings: []tqc.Warning{{Node: "conv", Text: "odd", Value: 2}}}
}

// decisions are some of each kind.
func decisions(t *testing.T, lines ...string) []decision.Decision {
	var list []decision.Decision
	for _, line := range lines {
		d, err := decision.Parse("d", []byte(line))
		require.NoError(t, err)
		list = append(list, *d)
	}
	return list
}

// decided is the plan of the network with two commands behind it and one that was undone.
func decided(t *testing.T, g *graph.Graph) *plan.Plan {
	p, err := plan.FromSet(g, configured(t, g), meta())
	require.NoError(t, err)
	p.Decide(decisions(t, `{"by":"calibrate","observer":"minmax","per_tensor":false}`,
		`{"by":"target","dispatcher":"conservative","border_cost":26}`)...)
	p.Decide(decisions(t, `{"by":"user","select":"/so<f>t/","domain":"fp32"}`)...)
	p.Decide(decisions(t, `{"by":"user","select":"conv:in0","scale":0.25,"zero_point":3}`, `{"by":"user","unset":[3]}`)...)
	_, err = p.Undo()
	require.NoError(t, err)
	return p
}

func encode(t *testing.T, p *plan.Plan) string {
	b, err := p.Encode()
	require.NoError(t, err)
	return string(b)
}

func TestPlanIsReadable(t *testing.T) {
	g := graphtest.Parse(t, network)
	golden(t, "testdata/plan.json", encode(t, decided(t, g)))
}

// What version 1 wrote is read, and written as it was.
func TestVersion1(t *testing.T) {
	src, err := os.ReadFile("testdata/plan1.json")
	require.NoError(t, err)
	p, err := plan.Parse("p", src)
	require.NoError(t, err)
	require.NotNil(t, p.Options)
	require.Equal(t, "minmax", string(p.Options.Observers.Activation))
	require.Equal(t, string(src), encode(t, p))
	g := graphtest.Parse(t, network)
	set, err := p.Apply(g)
	require.NoError(t, err)
	requireSameSet(t, configured(t, g), set)
	for _, edit := range [][2]string{{`"version": 1`, `"version": 2`}, {`"observers"`, `"decisions"`},
		{`"activation":"minmax"`, `"activation":"guess"`}} {
		_, err := plan.Parse("p", []byte(strings.Replace(string(src), edit[0], edit[1], 1)))
		require.Error(t, err, edit)
	}
}

// Numbers that were edited are seen; reasons and warnings, which are for people, may be.
func TestEdited(t *testing.T) {
	g := graphtest.Parse(t, network)
	good := encode(t, decided(t, g))
	for old, c := range map[string]struct {
		new    string
		edited bool
	}{
		`"scale":0.02`:         {`"scale":0.03`, true},
		`"zero_point":7`:       {`"zero_point":8`, true},
		`"domain":"FP32"`:      {`"domain":"SOI"`, true},
		`"qmin":-127`:          {`"qmin":-128`, true},
		`"why":"conservative"`: {`"why":"a whim"`, false},
		`"text":"odd"`:         {`"text":"even"`, false},
		`"steps": [2,1]`:       {`"steps": [1,2]`, false},
		`"border_cost":26`:     {`"border_cost":0`, false},
	} {
		require.Contains(t, good, old)
		p, err := plan.Parse("p", []byte(strings.Replace(good, old, c.new, 1)))
		require.NoError(t, err, c.new)
		edited, err := p.Edited()
		require.NoError(t, err)
		require.Equal(t, c.edited, edited, c.new)
		if edited {
			require.ErrorContains(t, p.Write(filepath.Join(t.TempDir(), "p")), "were edited")
		}
	}
}

// Undo and Again are inverse and leave no trace but the list of what can be done again; deciding something ends that list.
func TestUndo(t *testing.T) {
	g := graphtest.Parse(t, network)
	p := decided(t, g)
	require.Len(t, p.Decisions, 3)
	step, err := p.Again()
	require.NoError(t, err)
	require.Len(t, step, 2)
	require.Len(t, p.Decisions, 5)
	full := encode(t, p)
	for range 2 {
		_, err = p.Undo()
		require.NoError(t, err)
	}
	_, err = p.Undo()
	require.ErrorIs(t, err, plan.ErrFirst)
	require.Len(t, p.Decisions, 2)
	back, err := plan.Parse("p", []byte(encode(t, p)))
	require.NoError(t, err)
	for range 2 {
		_, err = back.Again()
		require.NoError(t, err)
	}
	require.Equal(t, full, encode(t, back))
	_, err = back.Again()
	require.ErrorIs(t, err, plan.ErrNoRedo)
	p.Decide(decisions(t, `{"by":"user","select":"conv","domain":"fp32"}`)...)
	require.Empty(t, p.Redo)
	p.Also(decisions(t, `{"by":"calibrate","select":"conv:in0","observer":"kl"}`)...)
	require.Equal(t, []int{2, 2}, p.Steps)
}

// golden compares with a file; QWB_REWRITE=1 writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("QWB_REWRITE") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func requireSameSet(t *testing.T, want, got *tqc.Set) {
	t.Helper()
	require.Equal(t, want.Domains, got.Domains)
	require.Equal(t, want.Why, got.Why)
	require.Equal(t, want.Fused, got.Fused)
	require.Equal(t, want.NumSlots(), got.NumSlots())
	for id := range tqc.SlotID(want.NumSlots()) {
		w, g := want.Save(id), got.Save(id)
		require.Equal(t, len(w.Params.Scale), len(g.Params.Scale), "slot %d", id)
		if len(w.Params.Scale) == 0 {
			w.Params, g.Params = tqc.Params{}, tqc.Params{}
		}
		require.Equal(t, w, g, "slot %d", id)
	}
}

func TestApplyRestoresTheSetExactly(t *testing.T) {
	g := graphtest.Parse(t, network)
	set := configured(t, g)
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		for id := range tqc.SlotID(set.NumSlots()) {
			if p := set.Params(id); set.Root(id) == id && p.Ready() {
				q := tqc.Params{ZeroPoint: p.ZeroPoint}
				for range p.Scale {
					q.Scale = append(q.Scale, float32(r.ExpFloat64())*[]float32{1e-37, 1e-7, 1, 1e30}[r.IntN(4)]+1e-38)
				}
				require.NoError(t, set.Render(id, q))
			}
		}
		p, err := plan.FromSet(g, set, meta())
		require.NoError(t, err)
		text := encode(t, p)
		back, err := plan.Parse("p", []byte(text))
		require.NoError(t, err)
		require.Equal(t, text, encode(t, back), "encoding what was parsed changes nothing")
		restored, err := back.Apply(g)
		require.NoError(t, err)
		requireSameSet(t, set, restored)
	}
}

func TestPlanDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	g := graphtest.Parse(t, network)
	p, err := plan.FromSet(g, configured(t, g), meta())
	require.NoError(t, err)
	shuffled := graphtest.Parse(t, network)
	shuffled.Shuffle([]int{2, 0, 3, 1})
	q, err := plan.FromSet(shuffled, configured(t, shuffled), meta())
	require.NoError(t, err)
	require.Equal(t, encode(t, p), encode(t, q))
	set, err := p.Apply(shuffled)
	require.NoError(t, err)
	requireSameSet(t, configured(t, shuffled), set)
}

// A setting that is not written would come back as its zero value, and the next command would quantize something else.
func TestEverySettingIsWritten(t *testing.T) {
	m := meta()
	m.Data.Synthetic, m.Target.Definition = true, "name: x"
	m.Data.Classes = &plan.Classes{Labelled: 3, Seen: 2, Of: 5, Least: 1, Most: 2}
	m.Imported = &plan.File{Path: "m.qdq.onnx", SHA256: "01"}
	for _, v := range []reflect.Value{reflect.ValueOf(m), reflect.ValueOf(m.Data), reflect.ValueOf(m.Target)} {
		for i := range v.NumField() {
			require.False(t, v.Field(i).IsZero(), "%s of %s: this test says nothing about it", v.Type().Field(i).Name, v.Type())
		}
	}
	back, err := plan.Parse("p", []byte(encode(t, &plan.Plan{Meta: m})))
	require.NoError(t, err)
	require.Equal(t, m, back.Meta)
}

// The hash is of inputs, decisions and numbers: not of the verification, of what can be redone, of prose or of where files lie.
func TestHash(t *testing.T) {
	g := graphtest.Parse(t, network)
	p := decided(t, g)
	before, err := p.Hash()
	require.NoError(t, err)
	p.Verification = &plan.Verification{Profile: "ort", Backend: "cpu", Samples: 8, Verdict: "equal", Digest: "ef"}
	same := *p
	same.Redo, same.Warnings, same.Model.Path, same.Data.Paths = nil, nil, "elsewhere.onnx", nil
	same.Nodes = append([]plan.Node(nil), p.Nodes...)
	same.Nodes[0].Why = "a whim"
	after, err := same.Hash()
	require.NoError(t, err)
	require.Equal(t, before, after)
	back, err := plan.Parse("p", []byte(encode(t, p)))
	require.NoError(t, err)
	require.Equal(t, p.Verification, back.Verification)
	for what, change := range map[string]func(p *plan.Plan){
		"model":      func(p *plan.Plan) { p.Model.SHA256 = "xx" },
		"data":       func(p *plan.Plan) { p.Data.Hash = "xx" },
		"ranges":     func(p *plan.Plan) { p.Ranges = "xx" },
		"target":     func(p *plan.Plan) { p.Target.SHA256 = "xx" },
		"imported":   func(p *plan.Plan) { p.Imported = &plan.File{SHA256: "xx"} },
		"preprocess": func(p *plan.Plan) { p.Preprocess.Scale = 2 },
		"decisions":  func(p *plan.Plan) { _, _ = p.Again() },
		"numbers":    func(p *plan.Plan) { p.Nodes = p.Nodes[1:] },
	} {
		other := *p
		change(&other)
		h, err := other.Hash()
		require.NoError(t, err)
		require.NotEqual(t, before, h, what)
	}
}

func TestDataHashIgnoresOrder(t *testing.T) {
	a, b := [32]byte{1}, [32]byte{2}
	require.Equal(t, plan.DataHash([][32]byte{a, b}), plan.DataHash([][32]byte{b, a}))
	require.NotEqual(t, plan.DataHash([][32]byte{a, a}), plan.DataHash([][32]byte{a}))
}

// Each edit makes a good plan into nonsense; the error has to say what and where.
func TestNonsenseIsRefused(t *testing.T) {
	g := graphtest.Parse(t, network)
	good := encode(t, decided(t, g))
	for _, c := range []struct{ old, new, want string }{
		{`"seed": 1`, `"sede": 1`, `p.json:8: unknown key "sede"`},
		{`"seed": 1`, `"Seed": 1`, `p.json:8: unknown key "Seed"`},
		{`"seed": 1`, `"samples": 1`, `p.json:8: key "samples" is repeated`},
		{`"seed": 1`, `"seed": null`, `p.json:8: null`},
		{`"seed": 1`, `"seed": "1"`, `p.json:8: `},
		{`"seed": 1`, `"seed": 1.5`, `p.json:8: `},
		{`"seed": 1,`, `"seed": 1`, `p.json:9: `},
		{`"version": 2`, `"version": 3`, `version 3 of the format`},
		{`"version": 2`, `"version": 1`, `unknown key "decisions"`},
		{`"steps": [2,1]`, `"steps": [2]`, `they add up to 2 decisions, there are 3`},
		{`"steps": [2,1]`, `"steps": [4,-1]`, `a command that made 4 decisions`},
		{`"by":"target"`, `"by":"nobody"`, `#2: decision: by is "nobody"`},
		{`"border_cost":26`, `"bordercost":26`, `unknown key "bordercost"`},
		{`"domain":"fp32"`, `"domain":"fp64"`, `unknown domain "fp64"`},
		{`"qwb plan"`, `"recipe"`, `not a plan`},
		{`"scale":0.02`, `"scale":0`, `node "relu": slot out0: scale 0`},
		{`"scale":0.02`, `"scale":-0.02`, `node "relu": slot out0: scale -0.02`},
		{`"scale":0.02`, `"scale":NaN`, `invalid character 'N'`},
		{`"scale":0.02`, `"scale":1e999`, `value out of range`},
		{`"scale":0.02`, `"scale":1e-99`, `node "relu": slot out0: scale 0`},
		{`"scale":0.02`, `"scale":[0.02,0.03]`, `node "relu": slot out0: 2 scales for a per-tensor policy`},
		{`"scale":0.02,"zero_point":0`, `"zero_point":0`, `node "relu": slot out0: a zero point without a scale`},
		{`"scale":0.02,"zero_point":0,`, ``, `node "relu": slot out0: ACTIVATED without a scale`},
		{`"scale":0.1,"zero_point":7`, `"scale":0.1,"zero_point":256`, `node "conv": slot in0: zero point 256 outside [0, 255]`},
		{`"scale":0.1,"zero_point":7`, `"scale":0.1,"zero_point":7.5`, `number "7.5"`},
		{`"scale":0.1,"zero_point":7`, `"scale":0.1,"zero_point":[7,7]`, `node "conv": slot in0: 1 scales and 2 zero points`},
		{`"state":"OVERLAPPED"`, `"state":"ASLEEP"`, `unknown state "ASLEEP"`},
		{`"state":"OVERLAPPED"`, `"state":"ACTIVATED"`, `node "conv": slot out0: ACTIVATED, but governed by`},
		{`"state":"PASSIVE","scheme":"uint8-asymmetric-minmax","root":"relu:out0"`, `"state":"OVERLAPPED","scheme":"uint8-asymmetric-minmax"`,
			`node "pool": slot out0: OVERLAPPED, but no other slot governs it`},
		{`"root":"relu:out0"`, `"root":"relu:out1"`, `root "relu:out1" is not another slot of the plan`},
		{`"root":"relu:out0"`, `"root":"pool:in0"`, `is itself governed by`},
		{`"at":"in1"`, `"at":"in0"`, `node "conv": slot in0 occurs twice`},
		{`"at":"in1"`, `"at":"side"`, `slot "side" is neither an input (in0) nor an output`},
		{`"node":"relu"`, `"node":"conv"`, `node "conv" is empty or occurs twice`},
		{`"domain":"FP32"`, `"domain":"INT4"`, `unknown domain "INT4"`},
		{`"fused":"conv"`, `"fused":"soft"`, `fused with "soft", which is not another integer node`},
		{`"scheme":"int8-symmetric-channel0-minmax"`, `"scheme":"int4"`, `scheme "int4" is not in the plan`},
		{`"bits":8,"qmin":0`, `"bits":7,"qmin":0`, `does not fit into 7 bits`},
		{`"policy":"asymmetric per-tensor linear"`, `"policy":"asymmetric linear"`, `exactly one of per-tensor, per-channel, per-group`},
		{`"rounding":"half-even"`, `"rounding":"dice"`, `unknown rounding "dice"`},
		{`"by":"calibrate","observer":"minmax"`, `"by":"calibrate","observer":"guess"`, `unknown observer "guess"`},
		{`"samples": 3`, `"samples": -3`, `-3 samples`},
		{`"mean":[127.5]`, `"mean":[1,2,3,4,5]`, `at most 4 channels`},
	} {
		require.Contains(t, good, c.old)
		_, err := plan.Parse("p.json", []byte(strings.Replace(good, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want, "%s -> %s", c.old, c.new)
		require.NotContains(t, err.Error(), "\n")
		require.Regexp(t, regexp.MustCompile(`^p\.json:`), err.Error())
	}
	_, err := plan.Parse("p.json", []byte(good+"{}"))
	require.ErrorContains(t, err, "follows the end")
	for i := range len(good) - 2 {
		_, err := plan.Parse("p.json", []byte(good[:i]))
		require.Error(t, err, "cut after %d bytes", i)
	}
}

func TestApplyRefusesAnotherModel(t *testing.T) {
	g := graphtest.Parse(t, network)
	p, err := plan.FromSet(g, configured(t, g), meta())
	require.NoError(t, err)
	for _, c := range []struct{ old, new, want string }{
		{`"conv"`, `"conv_1"`, `node "conv_1" (Conv) of the model is not in the plan`},
		{`Relu(c) "relu"`, `Abs(c) "relu"`, `node "relu" is Abs in the model and Relu in the plan`},
		{`Softmax(p) {axis=1} "soft"`, `Softmax(p) {axis=1} "soft"; extra: f32[1] = Abs(s) "extra"; output extra`,
			`node "extra" (Abs) of the model is not in the plan`},
		{`Conv(x, w, b)`, `Conv(x, w)`, `slot conv:in2 of the plan is not in the model`},
		{`f32[2,3,1,1] = normal(1)`, `f32[5,3,1,1] = normal(1)`, `slot conv:in1: 2 scales for [5,3,1,1], wanted 5`},
	} {
		require.Contains(t, network, c.old)
		_, err := p.Apply(graphtest.Parse(t, strings.Replace(network, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.want)
	}
	// A plan with one more node than the model.
	q := *p
	q.Nodes = append(append([]plan.Node(nil), p.Nodes...), plan.Node{Name: "ghost", Op: "Relu"})
	_, err = q.Apply(g)
	require.ErrorContains(t, err, `node "ghost" (Relu) of the plan is not in the model`)
	// A slot is missing.
	q = *p
	q.Nodes = append([]plan.Node(nil), p.Nodes...)
	q.Nodes[0].Slots = q.Nodes[0].Slots[1:]
	_, err = q.Apply(g)
	require.ErrorContains(t, err, `node "conv": slot in0 is not in the plan`)
}

func TestWriteKeepsTheOldPlan(t *testing.T) {
	g := graphtest.Parse(t, network)
	p, err := plan.FromSet(g, configured(t, g), meta())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "m.plan.json")
	require.NoError(t, p.Write(path))
	require.NoFileExists(t, path+".bak")
	first := encode(t, p)
	require.NoError(t, p.Write(path))
	require.NoFileExists(t, path+".bak", "the same plan again is not a new version")
	p.Seed = 99
	require.NoError(t, p.Write(path))
	old, err := os.ReadFile(path + ".bak")
	require.NoError(t, err)
	require.Equal(t, first, string(old))
	back, err := plan.Read(path)
	require.NoError(t, err)
	require.Equal(t, int64(99), back.Seed)
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 2, "no temporary file stays")
	require.Error(t, p.Write(filepath.Join(path, "below-a-file")))
	_, err = plan.Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRelativeAndResolve(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "out", "m.plan.json")
	require.Equal(t, "../models/m.onnx", plan.Relative(p, filepath.Join(dir, "models", "m.onnx")))
	require.Equal(t, filepath.Join(dir, "models", "m.onnx"), plan.Resolve(p, "../models/m.onnx"))
	require.Equal(t, filepath.Join(dir, "m.onnx"), plan.Resolve(p, filepath.Join(dir, "m.onnx")))
}

func FuzzParse(f *testing.F) {
	golden, err := os.ReadFile("testdata/plan.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	if golden, err = os.ReadFile("testdata/plan1.json"); err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(`{"format":"qwb plan","version":1,"nodes":[{"node":"a","domain":"INT8","slots":[{"at":"in0","state":"FP32"}]}]}`))
	f.Add([]byte(`{"preprocess":{"resize":{"size":[[[1]]]}}}`))
	g, err := graph.Parse(network)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := plan.Parse("f", src)
		if err != nil {
			return
		}
		b, err := p.Encode()
		require.NoError(t, err)
		q, err := plan.Parse("f", b)
		require.NoError(t, err, "%s", b)
		again, err := q.Encode()
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
		if set, err := p.Apply(g); err == nil {
			_, err = plan.FromSet(g, set, p.Meta)
			require.NoError(t, err)
		}
	})
}
