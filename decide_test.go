package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// planIn reads the project's plan.
func planIn(t *testing.T, p *Project) *plan.Plan {
	t.Helper()
	f, err := plan.Parse(p.Plan, get(t, p, p.Plan))
	require.NoError(t, err)
	return f
}

// withoutRedo is the plan's file without what can be done again.
func withoutRedo(t *testing.T, p *Project) string {
	t.Helper()
	f := planIn(t, p)
	f.Redo = nil
	b, err := f.Encode()
	require.NoError(t, err)
	return string(b)
}

// derivesAgain requires that the decisions of the plan derive to what is stored in it.
func derivesAgain(t *testing.T, p *Project) {
	t.Helper()
	j := p.job()
	c, err := planning.NewChange(context.Background(), j, 1)
	require.NoError(t, err)
	defer c.Close()
	require.Empty(t, c.Other, "derived again it is another plan")
	require.Empty(t, c.Was.Choices, "every automatic choice is remembered")
}

// Any sequence of ten commands: the list of decisions only grows, but for undo, which gives the bytes of before; what is stored is what
// the decisions derive to; a command that fails leaves the plan alone.
func TestAnyTenCommands(t *testing.T) {
	ctx := context.Background()
	seeds := uint64(6)
	if !longtest.Wanted(t) {
		seeds = 1
	}
	for seed := range seeds {
		for _, platform := range []string{"onnxruntime", "trt_int8"} {
			r := rand.New(rand.NewPCG(seed, 11))
			p := place(t, new(Memory), "m", 3)
			start := tqc.Observer([]string{"minmax", "auto", "mse"}[r.IntN(3)])
			_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Observer: start, Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
			require.NoError(t, err)
			states := []string{withoutRedo(t, p)} // after each step of the plan
			var undone []string
			var history []string
			for range 10 {
				before, list := string(get(t, p, p.Plan)), planIn(t, p).Decisions
				kind, what := r.IntN(9), ""
				pick := func(words ...string) string { return words[r.IntN(len(words))] }
				var err error
				switch kind {
				case 0:
					what = "set " + pick("conv1", "type:Conv", "gemm", "first", "/relu/") + " domain=" + pick("fp32", "int")
				case 1:
					what = "set " + pick("conv1", "conv2:in0", "*", "input:*") + " observer=" + pick("minmax", "kl", "percentile(0.99)", "auto")
				case 2:
					what = "set " + pick("conv1:in0", "gemm:in0", "conv2:weight", "add:in0") + " scale=" + pick("0.02", "0.5") + " zero_point=" +
						pick("0", "3")
				case 3:
					what = "set " + pick("conv1", "type:Conv") + " per_tensor=true"
				case 4:
					what = "unset " + pick("conv1", "#3", "#4", "#5")
					_, _, err = p.Unset(ctx, strings.TrimPrefix(what, "unset "), 1)
				case 5:
					what = "dispatch --fp32 " + pick("conv1", "conv2", "gemm")
					_, _, err = p.Dispatch(ctx, DispatchOptions{Selectors: []string{strings.Fields(what)[2]}, Threads: 1})
				case 6:
					what = "dispatch --" + pick("auto", "reset")
					o := DispatchOptions{Threads: 1, Reset: what == "dispatch --reset"}
					if !o.Reset {
						o.Budget, o.Force = &Budget{Name: "nsr", At: 1e-4}, true
					}
					_, _, err = p.Dispatch(ctx, o)
				case 7:
					what = pick("undo", "redo")
					if what == "undo" {
						_, _, err = p.Undo(ctx, 1)
					} else {
						_, _, err = p.Redo(ctx, 1)
					}
				case 8:
					what = "calibrate --observer " + pick("minmax", "kl", "auto")
					_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: platform, Observer: tqc.Observer(strings.Fields(what)[2]), Threads: 1})
				}
				if kind < 4 {
					words := strings.Fields(what)
					_, _, err = p.Set(ctx, words[1], words[2:], 1)
				}
				history = append(history, fmt.Sprintf("%s (%v)", what, err))
				trace := fmt.Sprintf("%s, seed %d: %s", platform, seed, strings.Join(history, "; "))
				after := planIn(t, p)
				now := withoutRedo(t, p)
				switch {
				case err != nil:
					require.Equal(t, before, string(get(t, p, p.Plan)), trace)
				case what == "undo":
					last := len(states) - 1
					undone, states = append(undone, states[last]), states[:last]
					require.Equal(t, states[last-1], now, trace)
				case what == "redo":
					last := len(undone) - 1
					states, undone = append(states, undone[last]), undone[:last]
					require.Equal(t, states[len(states)-1], now, trace)
				default:
					require.GreaterOrEqual(t, len(after.Decisions), len(list), trace)
					require.Equal(t, list, after.Decisions[:len(list)], "no decision is lost: %s", trace)
					if len(after.Steps) > len(states) {
						states, undone = append(states, now), nil
					}
				}
				require.Len(t, after.Steps, len(states), trace)
				require.NoError(t, decision.CheckList(after.Decisions), trace)
				derivesAgain(t, p)
			}
			for len(states) > 1 {
				_, _, err := p.Undo(ctx, 1)
				require.NoError(t, err)
				states = states[:len(states)-1]
				require.Equal(t, states[len(states)-1], withoutRedo(t, p), "%s, seed %d: %s", platform, seed, strings.Join(history, "; "))
			}
			_, _, err = p.Undo(ctx, 1)
			require.ErrorIs(t, err, plan.ErrFirst)
		}
	}
}

func float(t *testing.T, p *Project) string {
	t.Helper()
	var names []string
	for _, n := range planIn(t, p).Nodes {
		if n.Domain == tqc.DomainFP32 {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, " ")
}

// What a search found stays when the user decides about something else: it was forgotten.
func TestDispatchKeepsTheSearch(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	calibrateOn(t, p, "m")
	found, _, err := p.Dispatch(ctx, DispatchOptions{Budget: &Budget{Name: "nsr", At: 1e-4}, Force: true, Threads: 1})
	require.NoError(t, err)
	require.NotEmpty(t, found.FP32)
	other := "gemm"
	if found.FP32[0] == "gemm" {
		other = "conv1"
	}
	d, _, err := p.Dispatch(ctx, DispatchOptions{Selectors: []string{other}, Threads: 1})
	require.NoError(t, err)
	for _, n := range found.FP32 {
		require.Contains(t, d.FP32, n)
	}
	_, _, err = p.Set(ctx, other, []string{"domain=int"}, 1)
	require.NoError(t, err)
	// A new search begins from what the user decided, and does not take that back.
	again, _, err := p.Dispatch(ctx, DispatchOptions{Budget: &Budget{Name: "nsr", At: 1}, Force: true, Threads: 1})
	require.NoError(t, err)
	require.Empty(t, again.FP32, "the new search replaces the old one")
	log, _, err := p.Log(ctx)
	require.NoError(t, err)
	var evidence map[string]any
	for _, l := range log.Decisions {
		if l.By == decision.BySearch {
			require.False(t, l.InForce)
			require.NoError(t, json.Unmarshal(l.Evidence, &evidence))
		}
	}
	require.NotEmpty(t, evidence["samples"])
}

// forcedSearch asks for somewhat less error than the plan has on its few samples.
func forcedSearch(t *testing.T, p *Project) DispatchOptions {
	t.Helper()
	o := DispatchOptions{Budget: &Budget{Name: "nsr", At: 1}, Force: true, Threads: 1}
	r, _, err := p.Dispatch(context.Background(), o)
	require.NoError(t, err)
	require.Empty(t, r.Decisions)
	o.Budget = &Budget{Name: "nsr", At: 0.8 * r.Before}
	return o
}

// Evidence is shown as stale when what it was gathered under is decided otherwise.
func TestEvidenceGoesStale(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: new(float64),
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Dispatch(ctx, DispatchOptions{Selectors: []string{"gemm"}, Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Dispatch(ctx, forcedSearch(t, p))
	require.NoError(t, err)
	stale := func() (n int) {
		log, _, err := p.Log(ctx)
		require.NoError(t, err)
		for _, l := range log.Decisions {
			if l.Stale {
				n++
			}
		}
		return n
	}
	require.Zero(t, stale())
	require.Equal(t, decision.BySearch, planIn(t, p).Decisions[3].By)
	_, _, err = p.Unset(ctx, "gemm", 1)
	require.NoError(t, err)
	require.Equal(t, 1, stale())
}

// A scheme that is decided gets the scales of its integers: 4-bit schemes kept 8-bit scales.
func TestSchemesGetTheirScales(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	wide := *p
	tg, err := p.Target("onnxruntime")
	require.NoError(t, err)
	narrow := *tg
	narrow.Name = "narrow"
	put(t, p.job().Files(), "narrow.yaml", narrow.YAML())
	_, _, err = wide.Calibrate(ctx, CalibrateOptions{Platform: "narrow.yaml", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	require.NotEmpty(t, planIn(t, p).Target.Definition, "a platform that is not built in stands in the plan")
	scale := func() float32 {
		for _, s := range planIn(t, p).Nodes[0].Slots {
			if s.At == "in1" {
				return s.Scale[0]
			}
		}
		return 0
	}
	before := scale()
	_, _, err = p.Set(ctx, "conv1", []string{"weights=int4-sym-channel"}, 1)
	require.NoError(t, err)
	require.InEpsilon(t, float64(before)*127/7, float64(scale()), 1e-5)
	_, _, err = p.Set(ctx, "conv1", []string{"weights=int3-sym-channel"}, 1)
	require.ErrorContains(t, err, "weights of Conv cannot be int3-sym-channel: one of int8-sym-channel")
	put(t, p.job().Files(), "narrow.yaml", nil)
	_, _, err = p.Set(ctx, "conv1", []string{"observer=kl"}, 1)
	require.NoError(t, err, "the plan has the platform's definition")
}

// A decision that the plan holds already is not added again, unless something about the same came after it, or it was taken back.
func TestSetAgainAddsNothing(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	first := len(planIn(t, p).Decisions)
	set := func(unchanged bool, count int, selector string, words ...string) {
		t.Helper()
		r, _, err := p.Set(ctx, selector, words, 1)
		require.NoError(t, err)
		require.Equal(t, unchanged, r.Unchanged)
		require.Len(t, planIn(t, p).Decisions, first+count)
	}
	set(false, 1, "gemm", "domain=fp32")
	set(true, 1, "gemm", "domain=fp32")
	set(false, 2, "conv1", "observer=minmax")
	set(true, 2, "gemm", "domain=fp32")
	set(false, 3, "*", "domain=int")
	set(false, 4, "gemm", "domain=fp32")
	set(true, 4, "gemm", "domain=fp32")
	_, _, err = p.Unset(ctx, fmt.Sprintf("#%d", first+4), 1)
	require.NoError(t, err)
	set(false, 6, "gemm", "domain=fp32")
}

// What set refuses leaves the plan as it is, with an error that names the decision and what could be decided instead.
func TestSetRefuses(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	before := string(get(t, p, p.Plan))
	for words, want := range map[string]string{
		"nothing domain=fp32":                                       `selector "nothing" matches no node`,
		"conv1 weights=nf4-sym-channel":                             "weights of Conv cannot be nf4-sym-channel: one of int8-sym-channel",
		"conv1:in0 activations=e4m3-sym-tensor observer=kl":         "kl: it compares codes that lie evenly",
		"conv1:in0 activations=int8-sym-dynamic-tensor observer=kl": "scales of int8-sym-dynamic-tensor are computed at run time",
		"conv1:in0 activations=int8-sym-dynamic-token":              "along which scales of tokens vary",
		"conv1 activations=int12-sym-tensor": "activations of Conv cannot be int12-sym-tensor: " +
			"one of uint8-asym-tensor",
		"max:out0 observer=kl": "max:out0 is PASSIVE: it takes the scale of relu2:out0; " +
			"decide about that one",
		"conv1:in0 scale=0.5":                                          "decide zero_point with the scale",
		"conv1:weight scale=0.5;0.5":                                   "2 scales, wanted 16",
		"conv1:in0 zero_point=3":                                       "a zero point without a scale",
		"conv1:in0 scale=0.5 zero_point=300":                           "zero point 300 outside [0, 255]",
		"conv1:weight scale=" + strings.Repeat("1e-12;", 15) + "1e-12": "the bias does not fit into 32 bits",
		"conv1:bias scale=1":                                           "a bias takes the scales of its operator",
		"conv1 align=banana":                                           `unknown alignment "banana": one of none, output, input, large`,
		"conv1 align=output":                                           "scales of Conv cannot be aligned as output: one of none",
		"concat align=output":                                          "it changes nothing: none of its tensors can share a scale here",
		"conv1 align=none": "it changes nothing: onnxruntime has nothing " +
			"there that this property applies to",
	} {
		f := strings.Fields(words)
		_, _, err := p.Set(ctx, f[0], f[1:], 1)
		require.ErrorContains(t, err, want, words)
		require.Equal(t, before, string(get(t, p, p.Plan)), words)
	}
	_, _, err = p.Dispatch(ctx, DispatchOptions{Selectors: []string{"conv1"}, Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "relu1", []string{"domain=int"}, 1)
	require.ErrorContains(t, err, `"relu1" is forced to integers and "conv1" to float`)
	require.ErrorContains(t, err, "conflict with decision #3")
	_, _, err = p.Set(ctx, "conv1:in0", []string{"observer=kl"}, 1)
	require.ErrorContains(t, err, `"conv1" does not run on integers (user: conv1)`)
}

// Which tensors of an operator share a scale is decided, derived, exported and taken back as every other property.
func TestAlignIsDecided(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	var model bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, `
graph branches
opset 17
input x: f32[1,3,8,8]
const w1: f32[4,3,1,1] = normal(seed=1, std=0.3)
const w2: f32[4,3,1,1] = normal(seed=2, std=0.9)
a = Conv(x, w1) "left"
b = Conv(x, w2) "right"
s = Add(a, b) "add"
y = GlobalAveragePool(s) "pool"
output y: f32[1,4,1,1]
`)}).Write(&model))
	p.job().Files().(*Memory).Write(p.Model, model.Bytes())
	zero := 0.0
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", BorderCost: &zero,
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	scales := func() (list [3]float32) {
		x, _, err := p.Explain(ctx, "add")
		require.NoError(t, err)
		for i, s := range x.Slots {
			list[i] = s.Scale[0]
		}
		return list
	}
	own := scales()
	require.Less(t, own[0], own[1])
	for word, same := range map[string]func(now [3]float32) bool{
		"large":  func(now [3]float32) bool { return now[0] == now[1] && now[0] > own[0] && now[2] == own[2] },
		"output": func(now [3]float32) bool { return now[0] == now[1] && now[1] == now[2] },
		"none":   func(now [3]float32) bool { return now == own },
	} {
		_, _, err = p.Set(ctx, "add", []string{"align=" + word}, 1)
		require.NoError(t, err, word)
		now := scales()
		require.True(t, same(now), "%s: %v, before %v", word, now, own)
		derivesAgain(t, p)
		x, _, err := p.Explain(ctx, "add")
		require.NoError(t, err)
		require.Equal(t, "align="+word, x.By[0].Property)
		r, _, err := p.Verify(ctx, VerifyOptions{Backend: "cpu"})
		require.NoError(t, err, word)
		require.Equal(t, analysis.VerdictEqual, r.Verdict, word)
		_, _, err = p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: word + ".onnx", Threads: 1})
		require.NoError(t, err, word)
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, own, scales())
	}
	_, _, err = p.Set(ctx, "add", []string{"align=input"}, 1)
	require.ErrorContains(t, err, "scales of Add cannot be aligned as input: one of none, output, large")
	_, _, err = p.Set(ctx, "pool", []string{"align=input"}, 1)
	require.NoError(t, err)
	x, _, err := p.Explain(ctx, "pool")
	require.NoError(t, err)
	require.Equal(t, []float32{own[2]}, x.Slots[len(x.Slots)-1].Scale)
}

// A decision about a tensor that another governs goes to that one, and the log says so.
func TestGovernedSlots(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	r, _, err := p.Set(ctx, "conv2:in0", []string{"scale=0.125", "zero_point=7"}, 1)
	require.NoError(t, err)
	require.Equal(t, []Governed{{Decision: 3, Slot: "conv2:in0", By: "relu1:out0"}}, r.Governed)
	x, _, err := p.Explain(ctx, "relu1")
	require.NoError(t, err)
	out := x.Slots[len(x.Slots)-1]
	require.Equal(t, []float32{0.125}, out.Scale)
	require.Contains(t, fmt.Sprint(out.By), "conv2:in0")
	_, _, err = p.Set(ctx, "relu1:out0", []string{"freeze=true"}, 1)
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "*", []string{"observer=minmax"}, 1)
	require.NoError(t, err)
	x, _, err = p.Explain(ctx, "relu1")
	require.NoError(t, err)
	require.Equal(t, []float32{0.125}, x.Slots[len(x.Slots)-1].Scale, "a scale that is decided stands")
}

// Numbers that another version derived stand until they are derived again; what is decided anew is derived.
func TestStoredNumbersStand(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	calibrateOn(t, p, "m")
	f := planIn(t, p)
	other := f.Nodes[0].Slots[0].Scale[0] * 1.5
	f.Nodes[0].Slots[0].Scale[0] = other
	f.NodesHash = "" // as another version would have written it
	b, err := f.Encode()
	require.NoError(t, err)
	put(t, p.job().Files(), p.Plan, b)
	_, warnings, err := p.Set(ctx, "gemm", []string{"observer=minmax"}, 1)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings), "computed other numbers, first at conv1:in0")
	require.Equal(t, other, planIn(t, p).Nodes[0].Slots[0].Scale[0])
	_, _, err = p.Rederive(ctx, 1)
	require.NoError(t, err)
	require.InEpsilon(t, float64(other)/1.5, float64(planIn(t, p).Nodes[0].Slots[0].Scale[0]), 1e-6)
	_, warnings, err = p.Set(ctx, "conv1:in0", []string{"scale=1", "zero_point=0"}, 1)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(warnings), "derived other numbers")
}

// Calibrating with other data keeps what was decided, as the beginning of a new history; with --fresh nothing is kept.
func TestCalibratingKeepsDecisions(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	calibrateOn(t, p, "m")
	_, _, err := p.Set(ctx, "gemm", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1, Dispatcher: "conservative", BorderCost: new(float64)})
	require.NoError(t, err)
	f := planIn(t, p)
	require.Equal(t, "onnxruntime", f.Platform)
	require.Len(t, f.Steps, 1)
	require.Contains(t, float(t, p), "gemm")
	require.Zero(t, *f.Decisions[1].BorderCost)
	_, _, err = p.Undo(ctx, 1)
	require.ErrorContains(t, err, "m.plan.json.bak")
	b, _, err := p.Recipe(ctx)
	require.NoError(t, err)
	put(t, p.job().Files(), "r.yaml", b)
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1, Fresh: true})
	require.NoError(t, err)
	require.NotContains(t, float(t, p), "gemm")
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1, Recipes: []string{"r.yaml"}})
	require.NoError(t, err)
	require.Contains(t, float(t, p), "gemm")
	same := string(get(t, p, p.Plan))
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Threads: 1, Recipes: []string{"r.yaml"}})
	require.NoError(t, err)
	require.Equal(t, same, string(get(t, p, p.Plan)), "the same once more changes nothing")
}
