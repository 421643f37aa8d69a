package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/graph/exec"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// placeMany is place with n samples, which also lie in two folders: NAME.fit, those that are not held out, and NAME.held.
func placeMany(t *testing.T, name string, n int) *Project {
	t.Helper()
	store := new(Memory)
	p := place(t, store, name, 3)
	m, _, err := p.OpenNormal()
	require.NoError(t, err)
	for i := range n {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(1000+i), 1, 3, 8, 8)))
		store.Write(fmt.Sprintf("%s.many/%03d.npy", name, i), b.Bytes())
	}
	set, _, err := p.OpenData(m.Graph, DataOptions{Paths: []string{name + ".many"}})
	require.NoError(t, err)
	var list []*exec.Sample
	var hashes [][32]byte
	for i := range set.Len() {
		s, err := set.Sample(i)
		require.NoError(t, err)
		list, hashes = append(list, s), append(hashes, s.Hash)
	}
	halves := exec.NewHalves(hashes)
	for i, s := range list {
		folder := name + ".fit"
		if halves[s.Hash] {
			folder = name + ".held"
		}
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, s.Feeds["x"]))
		store.Write(fmt.Sprintf("%s/%03d.npy", folder, i), b.Bytes())
	}
	return p
}

func names(t *testing.T, p *Project) (list []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(p.Store, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	}))
	return list
}

// A row is what calibrate on the one half and analyze on the other give, the plan written is that of calibrate on all, and the number of
// threads changes nothing.
func TestSweep(t *testing.T) {
	ctx := context.Background()
	p := placeMany(t, "m", 60)
	o := SweepOptions{Data: DataOptions{Paths: []string{"m.many"}}, Platforms: []string{"trt_int8", "onnxruntime"},
		Granularities: []string{"channel", "tensor"},
		Observers:     []tqc.Observer{"minmax", "percentile(0.99)", "kl", "acme/never"}, Threads: 1}
	p.Catalog.Observers = []*observers.Method{{Name: "acme/never",
		Range: func(*observers.State, tqc.Config, float64) (observers.Range, []tqc.Warning, error) {
			return observers.Range{}, nil, errors.New("never")
		}}}
	r, _, err := p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Len(t, r.Rows, 12)
	require.Len(t, r.Skipped, 4)
	require.Contains(t, r.Skipped[0].Why, "never")
	require.Equal(t, 60, r.Samples)
	require.Equal(t, "unseen", r.HeldOutKind)
	require.Equal(t, p.Plan, r.Plan)
	require.True(t, r.Rows[0].Chosen)
	require.Equal(t, 1, r.Rows[0].Rank)
	for i, row := range r.Rows {
		if i%4 != 0 && !longtest.Wanted(t) {
			continue
		}
		half := *p
		half.Plan = "half" + PlanSuffix
		_, _, err := half.Calibrate(ctx, CalibrateOptions{Platform: row.Platform, Observer: row.Observer,
			PerTensor: row.Granularity == GranularityTensor, Fresh: true, Data: DataOptions{Paths: []string{"m.fit"}}})
		require.NoError(t, err)
		a, _, err := half.Analyze(ctx, AnalyzeOptions{Data: DataOptions{Paths: []string{"m.held"}}, Config: analysis.Config{Outputs: true}})
		require.NoError(t, err)
		require.Equal(t, r.HeldOut, a.Samples)
		require.InEpsilon(t, a.Outputs[0].NSR, row.NSR.NSR, 1e-9, "%+v", row)
		require.InEpsilon(t, *a.Outputs[0].NSRError, *row.NSRError, 1e-6)
		if i > 0 {
			require.GreaterOrEqual(t, row.Rank, r.Rows[i-1].Rank)
			require.InDelta(t, row.NSR.NSR-r.Rows[0].NSR.NSR, row.Behind, 1e-9)
		}
	}

	plain := *p
	plain.Plan = "plain" + PlanSuffix
	best := r.Rows[0]
	_, _, err = plain.Calibrate(ctx, CalibrateOptions{Platform: best.Platform, Observer: best.Observer,
		PerTensor: best.Granularity == GranularityTensor, Data: o.Data})
	require.NoError(t, err)
	a, b := planIn(t, p), planIn(t, &plain)
	require.Equal(t, b.Nodes, a.Nodes)
	require.Equal(t, string(get(t, &plain, "plain.stats")), string(get(t, p, "m.stats")))
	var e SweepEvidence
	require.NoError(t, json.Unmarshal(a.Decisions[0].Evidence, &e))
	require.True(t, e.Confirmed)
	require.Equal(t, best.NSR, e.NSR)
	require.Nil(t, b.Decisions[0].Evidence)
	derivesAgain(t, p)

	written := string(get(t, p, p.Plan))
	o.Threads = 3
	again, _, err := p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Equal(t, r.Rows, again.Rows)
	require.Equal(t, written, string(get(t, p, p.Plan)))
}

// With labels the table has answers too: those that eval counts.
func TestSweepLabelled(t *testing.T) {
	ctx := context.Background()
	p := placeMany(t, "m", 60)
	var labels bytes.Buffer
	labels.WriteString("file\tindex\n")
	for i := range 60 {
		fmt.Fprintf(&labels, "%03d.npy\t%d\n", i, i%10)
	}
	p.Store.(*Memory).Write("labels.tsv", labels.Bytes())
	o := SweepOptions{Data: DataOptions{Paths: []string{"m.many"}, Labels: "labels.tsv"}, Platforms: []string{"trt_int8"},
		Observers: []tqc.Observer{"minmax", "percentile(0.9)"}}
	r, _, err := p.Sweep(ctx, o)
	require.NoError(t, err)
	for _, row := range r.Rows {
		half := *p
		half.Plan = "half" + PlanSuffix
		_, _, err := half.Calibrate(ctx, CalibrateOptions{Platform: row.Platform, Observer: row.Observer, Fresh: true,
			Data: DataOptions{Paths: []string{"m.fit"}}})
		require.NoError(t, err)
		a, _, err := half.Eval(ctx, EvalOptions{Mode: "sim", Data: DataOptions{Paths: []string{"m.held"}, Labels: "labels.tsv"}})
		require.NoError(t, err)
		require.Equal(t, Answered{Top1: a.Top1, Drop: a.Drop, DropError: a.DropError, Flips: a.Flips}, *row.Answered)
		require.Equal(t, a.FloatTop1, *r.FloatTop1)
	}
	o.Data.Labels = "none.tsv"
	_, _, err = p.Sweep(ctx, o)
	require.ErrorContains(t, err, "none.tsv")
}

// What cannot be, and what too few samples cannot decide, writes nothing.
func TestSweepRefuses(t *testing.T) {
	ctx := context.Background()
	p := placeMany(t, "m", 20)
	data := DataOptions{Paths: []string{"m.many"}}
	before := names(t, p)
	usage := func(want string, o SweepOptions) {
		t.Helper()
		_, _, err := p.Sweep(ctx, o)
		require.ErrorContains(t, err, want)
		require.True(t, errors.As(err, new(UsageError)))
		require.Equal(t, before, names(t, p))
	}
	usage("sweep needs --data", SweepOptions{})
	usage(`unknown platform "no"`, SweepOptions{Data: data, Platforms: []string{"no"}})
	usage(`unknown observer "no"`, SweepOptions{Data: data, Observers: []tqc.Observer{"no"}})
	usage(`unknown granularity "no"`, SweepOptions{Data: data, Granularities: []string{"no"}})
	usage(`no`, SweepOptions{Data: data, Dispatchers: []string{"no"}})

	o := SweepOptions{Data: data, Platforms: []string{"trt_int8"}, Observers: []tqc.Observer{"minmax", "mse"}}
	r, _, err := p.Sweep(ctx, o)
	require.True(t, errors.As(err, new(CheckError)), "%v", err)
	require.ErrorContains(t, err, "too few")
	require.Len(t, r.Rows, 2)
	require.Empty(t, r.Plan)
	require.Regexp(t, `^qwb calibrate \S+ --data m\.many --platform trt_int8 --observer (minmax|mse)$`, r.Command)
	require.Equal(t, before, names(t, p))

	stopped, stop := context.WithCancel(ctx)
	stop()
	_, _, err = p.Sweep(stopped, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, names(t, p))

	o.Force = true
	r, _, err = p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Equal(t, p.Plan, r.Plan)
	var e SweepEvidence
	require.NoError(t, json.Unmarshal(planIn(t, p).Decisions[0].Evidence, &e))
	require.False(t, e.Confirmed)

	_, _, err = p.Set(ctx, "gemm", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	_, _, err = p.Sweep(ctx, o)
	require.ErrorContains(t, err, "--fresh", "a decision would be lost")
	o.Fresh = true
	_, _, err = p.Sweep(ctx, o)
	require.NoError(t, err)

	// Without data: a hint.
	written := names(t, p)
	plan := string(get(t, p, p.Plan))
	r, _, err = p.Sweep(ctx, SweepOptions{})
	require.NoError(t, err)
	require.Equal(t, HeldOutKept, r.HeldOutKind)
	require.Equal(t, 8, r.HeldOut)
	require.Len(t, r.Rows, len(SweepObservers()))
	require.Equal(t, "trt_int8", r.Rows[0].Platform, "that of the plan")
	require.Empty(t, r.Plan)
	require.Equal(t, written, names(t, p))
	require.Equal(t, plan, string(get(t, p, p.Plan)))
}

// Formats, the ranges of other tools and costs: rows of the same table; of plans that cannot be told apart the cheapest is taken.
func TestSweepFormatsAndCosts(t *testing.T) {
	ctx := context.Background()
	p := placeMany(t, "m", 60)
	p.Store.(*Memory).Write("d.yaml", []byte("name: d\ngops: {int8: 4, fp32: 1}\nread: [{bytes: 1, gbps: 1}]\nborder_ns: 1\noverhead_us: 1\n"))
	o := SweepOptions{Data: DataOptions{Paths: []string{"m.many"}}, Platforms: []string{"onnxruntime"}, Observers: []tqc.Observer{"robust"},
		Device:  "d.yaml",
		Formats: []string{"default", "domain=fp32", "weights=int3-sym-channel"}}
	r, _, err := p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Len(t, r.Rows, 2)
	require.Len(t, r.Skipped, 1)
	require.Contains(t, r.Skipped[0].Why, "int3-sym-channel")
	by := map[string]SweepRow{}
	for _, row := range r.Rows {
		by[row.Format+" "+string(row.Observer)] = row
		require.NotNil(t, row.Cost.Seconds)
		require.Len(t, row.Cost.Device, 64)
	}
	eight, float := by["default robust"], by["domain=fp32 robust"]
	require.True(t, eight.Default)
	require.False(t, float.Default)
	require.Zero(t, float.NSR.NSR)
	require.Zero(t, float.Cost.MACs["int8"])
	require.Zero(t, eight.Cost.MACs["fp32"])
	require.Equal(t, float.Cost.MACs["fp32"], eight.Cost.MACs["int8"])
	require.Less(t, *eight.Cost.Seconds, *float.Cost.Seconds)
	require.Less(t, eight.Cost.TotalBytes(), float.Cost.TotalBytes())
	for _, row := range r.Rows {
		if row.Rank == 1 {
			require.LessOrEqual(t, *r.Rows[0].Cost.Seconds, *row.Cost.Seconds)
		}
	}
	o.Formats, o.Observers, o.Fresh = []string{"domain=fp32"}, []tqc.Observer{"robust"}, true
	r, _, err = p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Contains(t, r.Command, "&& qwb set "+p.Plan+" '*' domain=fp32")
	require.NotEmpty(t, planIn(t, p).Decisions[2].Domain)
	derivesAgain(t, p)

	o.Formats, o.Peers, o.Fresh = nil, true, true
	r, _, err = p.Sweep(ctx, o)
	require.NoError(t, err)
	require.Equal(t, 1+len(observers.Peers()), len(r.Rows)+len(r.Skipped))
	require.True(t, slices.ContainsFunc(r.Rows, func(row SweepRow) bool { return row.Observer == "onnxruntime/minmax" }))

	o.Formats = []string{"nonsense"}
	_, _, err = p.Sweep(ctx, o)
	require.True(t, errors.As(err, new(UsageError)), "%v", err)
	o.Formats, o.Device = nil, "none.yaml"
	_, _, err = p.Sweep(ctx, o)
	require.ErrorContains(t, err, "none.yaml")
}

// A sweep that is told no name writes beside a plan that is there; another one replaces what the sweep before wrote.
func TestASweepStandsBesideAPlan(t *testing.T) {
	p := placeMany(t, "m", 40)
	o := SweepOptions{Platforms: []string{"trt_int8"}, Data: DataOptions{Paths: []string{"m.many"}}, Beside: true,
		Observers: []tqc.Observer{tqc.ObserverMinMax, tqc.ObserverMSE}}
	first := p.Plan
	var was []byte
	for i, want := range []string{first, "m.sweep.plan.json", "m.sweep.plan.json"} {
		r, _, err := p.Sweep(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, want, r.Plan)
		require.Equal(t, first, p.Plan, "the project is of the plan that it was of")
		now, err := fs.ReadFile(p.Store, first)
		require.NoError(t, err)
		if i == 0 {
			was = now
		}
		require.Equal(t, string(was), string(now))
	}
	_, err := fs.Stat(p.Store, "m.sweep.stats")
	require.NoError(t, err)
}

// Calibrate --from begins with the decisions and the statistics of another plan, which stays as it is.
func TestCalibrateFromAnotherPlan(t *testing.T) {
	ctx, p := context.Background(), placeMany(t, "m", 40)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"m.fit"}}})
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "type:Conv", []string{"observer=minmax"}, 0)
	require.NoError(t, err)
	was, err := fs.ReadFile(p.Store, p.Plan)
	require.NoError(t, err)
	first := p.Plan
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", From: first})
	require.ErrorContains(t, err, "stays as it is")
	other := *p
	other.Plan, other.Stats = "other.plan.json", ""
	r, _, err := other.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", From: first})
	require.NoError(t, err)
	require.Equal(t, "other.plan.json", r.Plan)
	log, _, err := other.Log(ctx)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(log.Decisions, func(d Logged) bool { return d.By == "user" && d.InForce }))
	now, err := fs.ReadFile(p.Store, first)
	require.NoError(t, err)
	require.Equal(t, string(was), string(now))
	_, _, err = other.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", From: "none.plan.json"})
	require.ErrorContains(t, err, "none.plan.json")
}
