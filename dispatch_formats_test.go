package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/decision"
)

// chain is a network of five layers of different size and sensitivity.
const chain = `opset 17
input x: f32[N,3,8,8]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[16,8,3,3] = normal(seed=2, std=0.2)
const w3: f32[16,16,1,1] = normal(seed=3, std=0.4)
const w4: f32[64,16,3,3] = normal(seed=4, std=0.1)
const w5: f32[10,64] = normal(seed=5, std=0.3)
a = Conv(x, w1) {pads=[1,1,1,1]} "stem"
ra = Relu(a) "relu"
b = Conv(ra, w2) {pads=[1,1,1,1], strides=[2,2]} "down"
rb = Relu(b) "relu2"
c = Conv(rb, w3) "mix"
d = Conv(c, w4) {pads=[1,1,1,1]} "wide"
rd = Relu(d) "relu4"
p = GlobalAveragePool(rd) "pool"
f = Flatten(p) "flatten"
y = Gemm(f, w5) {transB=1} "head"
output y`

// searchable calibrates chain for a platform, with n samples to search on in the folder more.
func searchable(t *testing.T, platform string, n int) *Project {
	t.Helper()
	p := placeOf(t, chain)
	formatsPlatform(t, p)
	for i := range n {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(5000+i), 1, 3, 8, 8)))
		p.job().Files().(*Memory).Write(fmt.Sprintf("more/%03d.npy", i), b.Bytes())
	}
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: platform, BorderCost: new(float64),
		Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	return p
}

// everyChoice measures all choices of formats on the fitting samples and calls f with the loss and the cost of each.
func everyChoice(t *testing.T, p *Project, what Costing, formats []string, f func(loss, cost float64)) {
	t.Helper()
	ctx := context.Background()
	c, m := mixed(t, p, formats...)
	set, err := planning.PlanData(p.job(), c.Planned, DataOptions{Paths: []string{"more"}}, 0)
	require.NoError(t, err)
	all, err := samples.First(ctx, set.Iterator(), set.Len())
	require.NoError(t, err)
	fit, _ := samples.Halved(all)
	ev, err := analysis.NewEvaluator(ctx, c.Planned.Reference, func() exec.Iterator { return &exec.InMemory{Samples: fit} }, 2, 0)
	require.NoError(t, err)
	choice := make([]int, len(m.Units))
	for {
		out, _, err := m.Derive(ctx, c.Planned.Plan.Decisions, "", choice)
		require.NoError(t, err)
		q, err := c.Planned.SimulatorOf(c.Planned.Graph, out.Set, nil)
		require.NoError(t, err)
		losses, err := ev.Losses(ctx, q)
		require.NoError(t, err)
		cost, err := analysis.CostOf(out.Graph, out.Set, c.Planned.Target, what.Device)
		require.NoError(t, err)
		f(losses.Estimate().Mean, what.Of(cost, c.Planned.Target))
		i := 0
		for ; i < len(choice) && choice[i] == len(m.Units[i].Options)-1; i++ {
			choice[i] = 0
		}
		if i == len(choice) {
			return
		}
		choice[i]++
	}
}

// What is found costs no more, and loses next to no more, than the best of all choices.
func TestDispatchInFormatsAgainstEveryChoice(t *testing.T) {
	ctx := context.Background()
	formats := []string{"fp16", "int4"}
	p := searchable(t, "onnxruntime", 60)
	type outcome struct{ loss, cost float64 }
	var all []outcome
	bytes := Costing{What: "bytes"}
	everyChoice(t, p, bytes, formats, func(loss, cost float64) { all = append(all, outcome{loss, cost}) })
	require.Len(t, all, 3*3*3*3*3)
	before := get(t, p, p.Plan)
	for _, share := range []float64{0.7, 0.85, 1} {
		o := DispatchOptions{Formats: formats, Costing: bytes, MaxCost: &CostLimit{At: share, Share: true},
			Data: DataOptions{Paths: []string{"more"}}, Threads: 1}
		r, _, err := p.Dispatch(ctx, o)
		require.NoError(t, err)
		limit := share * float64(r.Cost.Before.TotalBytes())
		require.LessOrEqual(t, float64(r.Cost.After.TotalBytes()), limit)
		require.Equal(t, "bytes", r.Goal.Metric)
		require.InDelta(t, limit, r.Goal.Budget, 1e-6)
		best := math.Inf(1)
		for _, x := range all {
			if x.cost <= limit {
				best = min(best, x.loss)
			}
		}
		t.Logf("%g of the bytes: loss %g, the best is %g, %d evaluations", share, r.Fit.Value, best, r.Evaluations)
		require.LessOrEqual(t, r.Fit.Value, 1.05*best+1e-12)
		require.True(t, r.Claimed)
		require.Positive(t, r.HeldOut.Value)

		// The plan has what was found: decisions with their evidence, and an export that ONNX Runtime takes.
		c, err := planning.NewChange(ctx, p.job(), 1)
		require.NoError(t, err)
		cost, err := analysis.CostOf(c.Was.Graph, c.Was.Set, c.Planned.Target, nil)
		require.NoError(t, err)
		require.Equal(t, r.Cost.After, cost)
		require.Empty(t, c.Findings(c.Was.Graph, c.Was.Set))
		n := 0
		for i := range c.Planned.Plan.Decisions {
			d := &c.Planned.Plan.Decisions[i]
			if d.By == decision.BySearch {
				require.Equal(t, r.Decisions[n], d.String())
				n++
				var evidence struct {
					Confirmed bool
					Cost      CostChange
				}
				require.NoError(t, json.Unmarshal(d.Evidence, &evidence))
				require.True(t, evidence.Confirmed)
				require.Equal(t, *r.Cost, evidence.Cost)
			}
		}
		require.Len(t, r.Decisions, n)
		c.Close()
		put(t, p.job().Files(), p.Plan, before)
	}

	// A budget on the error, looser and tighter than what INT8 loses.
	var asIs float64
	for _, x := range all[:1] {
		asIs = x.loss
	}
	for _, factor := range []float64{32, 0.5} {
		o := DispatchOptions{Formats: formats, Costing: bytes, Budget: &Budget{Name: "nsr", At: factor * asIs},
			Data: DataOptions{Paths: []string{"more"}}, Threads: 1}
		r, _, err := p.Dispatch(ctx, o)
		require.NoError(t, err)
		require.True(t, r.Claimed)
		require.LessOrEqual(t, *r.HeldOut.Upper, factor*asIs)
		t.Logf("%g times the loss: %d bytes, were %d, held out %g", factor, r.Cost.After.TotalBytes(), r.Cost.Before.TotalBytes(),
			r.HeldOut.Value)
		require.Equal(t, factor > 1, r.Cost.After.TotalBytes() < r.Cost.Before.TotalBytes())
		best := math.Inf(1) // hardly more expensive than one that would meet a third of the budget: the rest is for chance
		for _, x := range all {
			if x.loss <= factor*asIs/3 {
				best = min(best, x.cost)
			}
		}
		require.LessOrEqual(t, float64(r.Cost.After.TotalBytes()), 1.05*best)
		put(t, p.job().Files(), p.Plan, before)
	}
}

// Too few samples, a cost that no choice has, and formats that the platform cannot have leave the plan unchanged.
func TestDispatchInFormatsRefuses(t *testing.T) {
	ctx := context.Background()
	p := searchable(t, "onnxruntime", 60)
	before := get(t, p, p.Plan)
	o := DispatchOptions{Formats: []string{"int4"}, Costing: Costing{What: "bytes"}, MaxCost: &CostLimit{At: 100},
		Data: DataOptions{Paths: []string{"more"}}, Threads: 1}
	r, _, err := p.Dispatch(ctx, o)
	require.ErrorAs(t, err, new(CheckError))
	require.Regexp(t, `no choice of formats costs at most 0\.1 KB: no choice meets the bound: \d+ at least; the plan is unchanged`,
		err.Error())
	require.False(t, r.Claimed)
	o.MaxCost, o.Data.Paths = &CostLimit{At: 0.8, Share: true}, []string{"m"}
	_, _, err = p.Dispatch(ctx, o)
	require.ErrorContains(t, err, "4 samples can confirm nothing: give at least 32 that differ")
	o.Costing = Costing{What: "time"}
	_, _, err = p.Dispatch(ctx, o)
	require.ErrorAs(t, err, new(UsageError))
	require.EqualError(t, err, "time is predicted from a device file: --device FILE")
	o.DeviceFile = "none.yaml"
	_, _, err = p.Dispatch(ctx, o)
	require.ErrorContains(t, err, "none.yaml")
	o.Costing, o.DeviceFile, o.Formats = Costing{What: "bytes"}, "", []string{"half"}
	_, _, err = p.Dispatch(ctx, o)
	require.ErrorAs(t, err, new(UsageError))
	require.Equal(t, before, get(t, p, p.Plan))
}

// Every format at once, on a platform that has all: found, decided, and derived again from the plan alone.
func TestDispatchInAllFormats(t *testing.T) {
	ctx := context.Background()
	p := searchable(t, "formats.yaml", 60)
	put(t, p.job().Files(), "device.yaml", []byte("name: d\ngops: {int4: 8, int8: 4, int16: 2, fp16: 2, fp32: 1}\n"+
		"read: [{bytes: 1, gbps: 1}]\nborder_ns: 1\n"))
	for what, at := range map[string]float64{"macs": 0.0003, "bytes": 0.03, "time": 0.0003} {
		o := DispatchOptions{Formats: []string{"fp32", "fp16", "int16", "int4", "e4m3", "weights=int4-sym-g3"}, Costing: Costing{What: what},
			DeviceFile: "device.yaml",
			Budget:     &Budget{Name: "nsr", At: at}, Data: DataOptions{Paths: []string{"more"}}, Threads: 1}
		if what == "bytes" {
			o.Rank = RankGradient
		}
		r, _, err := p.Dispatch(ctx, o)
		require.NoError(t, err)
		require.True(t, r.Claimed, what)
		require.NotEmpty(t, r.Decisions, what)
		require.NotNil(t, r.Cost.After.Seconds)
		require.NotEmpty(t, r.Units, what)
		for _, u := range r.Units {
			nsr := map[string]float64{}
			for _, f := range u.Formats {
				nsr[f.Format] = f.NSR
			}
			require.Zero(t, nsr["fp32"], u.Unit)
			if less, ok := nsr["int4"]; ok {
				require.Greater(t, less, nsr["int16"], "%s: %s", what, u.Unit)
			}
		}
		t.Log(what, r.Decisions, r.Cost.After, r.HeldOut.Value, r.Evaluations)
		derivesAgain(t, p)
		_, _, err = p.Undo(ctx, 1)
		require.NoError(t, err)
	}
}

// An operator in a format is estimated as where it alone has that format; what is measured has nearly the same order.
func TestAnalyzeEstimatesInFormats(t *testing.T) {
	ctx := context.Background()
	p := searchable(t, "formats.yaml", 8)
	o := AnalyzeOptions{Sensitivity: true, Formats: []string{"fp32", "weights=int4-sym-channel", "int16", "e4m3"},
		Data: DataOptions{Paths: []string{"more"}}, Config: analysis.Config{Layerwise: true, Outputs: true}}
	r, _, err := p.Analyze(ctx, o)
	require.NoError(t, err)
	require.Len(t, r.Sensitivity.Formats, 3)
	require.Greater(t, *r.Sensitivity.AllFormats.Spearman, 0.9)
	for _, f := range r.Sensitivity.Formats {
		require.NotEmpty(t, f.Rows, f.Format)
		require.Equal(t, len(f.Rows) > 2, f.Spearman != nil, f.Format)
	}
	of := func(rows []analysis.Sensitivity) float64 {
		at := slices.IndexFunc(rows, func(s analysis.Sensitivity) bool { return s.Node == "mix" })
		return rows[at].NSR.NSR
	}
	narrow := of(r.Sensitivity.Formats[0].Rows)
	require.Greater(t, narrow, 10*of(r.Sensitivity.Rows))
	_, _, err = p.Set(ctx, "mix", []string{"weights=int4-sym-channel"}, 1)
	require.NoError(t, err)
	o.Formats, o.Layerwise = nil, false
	r, _, err = p.Analyze(ctx, o)
	require.NoError(t, err)
	require.Equal(t, narrow, of(r.Sensitivity.Rows))
	require.Nil(t, r.Sensitivity.AllFormats)
	o.Formats = []string{"half"}
	_, _, err = p.Analyze(ctx, o)
	require.ErrorAs(t, err, new(UsageError))
}
