package bring

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/calib"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/qdq"
	"qwb/quantizer/tqc"
)

// sameScale is how far, relatively, a scale may be from another that counts as the same: tools divide a range by 255, 254 or 256 steps,
// which is less than a percent apart.
const sameScale = 0.01

// Trained says which scales of a quantized file were trained, or came about in another way than by calibrating: those that are not what
// calibration of the float model gives.
type Trained struct {
	// Weights and Activations are how many tensors have scales of their own, WeightsTrained and ActivationsTrained how many of them were
	// trained. Without data activations cannot be compared, and ActivationsTrained is nil.
	Weights            int  `json:"weights"`
	WeightsTrained     int  `json:"weights_trained"`
	Activations        int  `json:"activations"`
	ActivationsTrained *int `json:"activations_trained"`
	// Observer is the calibration method of activations that they were held against, and Samples on how many samples.
	Observer tqc.Observer    `json:"observer,omitempty"`
	Samples  int             `json:"samples"`
	Tensors  []TrainedTensor `json:"tensors"`
}

// TrainedTensor holds the scales of a tensor against those that calibration gives. Arrays have one number per channel or group, or one.
type TrainedTensor struct {
	Tensor string `json:"tensor"`
	Node   string `json:"node"`
	At     string `json:"at"` // the slot: in1, out0
	Weight bool   `json:"weight"`
	// Trained: a scale is more than a percent away from the calibrated one; null where nothing is known to compare with.
	Trained    *bool     `json:"trained"`
	Scale      []float32 `json:"scale"` // of the file, and of the plan
	ZeroPoint  []int32   `json:"zero_point"`
	Calibrated []float32 `json:"calibrated,omitempty"`
	// CalibratedZeroPoint is nil where Calibrated is.
	CalibratedZeroPoint []int32 `json:"calibrated_zero_point,omitempty"`
	// Ratio is Scale / Calibrated where it is farthest from 1.
	Ratio *float64 `json:"ratio,omitempty"`
}

// cutAway is the ratio of the file's scale to the calibrated one below which its grid cuts away what the float model computes there.
const cutAway = 0.25

// beyond warns of tensors of the float model that reach far beyond the grids of the file, none where there is none.
func (t *Trained) beyond() []tqc.Warning {
	var worst *TrainedTensor
	n := 0
	for i := range t.Tensors {
		e := &t.Tensors[i]
		if e.Weight || e.Ratio == nil || *e.Ratio >= cutAway {
			continue
		}
		if n++; worst == nil || *e.Ratio < *worst.Ratio {
			worst = e
		}
	}
	if worst == nil {
		return nil
	}
	return []tqc.Warning{{Node: worst.Node, Value: *worst.Ratio,
		Text: fmt.Sprintf("%s of the float model %s more than %.0f times as far as in the file "+
			"(here %.3g times): an activation may be left out, or the samples are others; --float takes the network as it was",
			plain.Count(n, "tensor"), map[bool]string{true: "reaches", false: "reach"}[n == 1], 1/cutAway, 1 / *worst.Ratio)}}
}

// trained compares the scales of an imported graph with what calibration would have chosen: of weights min-max (or what the platform asks
// for), of activations what the samples of the data give. The set is not changed.
func trained(ctx context.Context, j *open.Job, im *qdq.Imported, m *open.Model, o ImportOptions) (Trained, error) {
	t := Trained{Tensors: []TrainedTensor{}}
	free := im.Free
	var stats *calib.Stats
	if len(o.Data.Paths) > 0 {
		var err error
		if stats, err = observeImported(ctx, j, im, m, o); err != nil {
			return t, err
		}
		t.Samples, t.Observer = stats.Samples(), cmp.Or(o.Observer, im.Target.Activation.Observer, tqc.ObserverMinMax)
		zero := 0
		t.ActivationsTrained = &zero
	} else { // activations have nothing to be calibrated from
		for i := range free.NumSlots() {
			s := tqc.SlotID(i)
			if sl := free.Slot(s); sl.State() == tqc.Initial && free.Root(s) == s && im.Graph.Const(sl.Value) == nil {
				if err := free.Render(s, *im.Set.Params(s)); err != nil {
					return t, err
				}
			}
		}
	}
	if _, err := calib.Render(ctx, im.Graph, free, stats, calib.RenderConfig{Observer: t.Observer, Own: j.Catalog.Observers,
		Threads: o.Threads}); err != nil {
		return t, err
	}
	seen := map[tqc.SlotID]bool{}
	for i := range im.Set.NumSlots() {
		s := im.Set.Root(tqc.SlotID(i))
		sl := im.Set.Slot(s)
		if seen[s] || sl.State() == tqc.FP32 || sl.Config.Bits == 32 || !im.Set.Params(s).Ready() {
			continue
		}
		seen[s] = true
		p := im.Set.Params(s)
		e := TrainedTensor{Tensor: im.Graph.Value(sl.Value).Name, Node: im.Graph.Node(sl.Node).Name, At: decision.At(sl.Kind, sl.Index),
			Weight: im.Graph.Const(sl.Value) != nil,
			Scale:  p.Scale, ZeroPoint: p.ZeroPoint}
		if e.Weight || stats != nil {
			if err := e.compare(free.Params(s), im.Graph.Const(sl.Value), &sl.Config, p); err != nil {
				return t, err
			}
		}
		switch {
		case e.Weight:
			t.Weights++
		default:
			t.Activations++
		}
		switch trained := e.Trained != nil && *e.Trained; {
		case trained && e.Weight:
			t.WeightsTrained++
		case trained:
			*t.ActivationsTrained++
		}
		t.Tensors = append(t.Tensors, e)
	}
	return t, nil
}

// compare fills in what calibration gives. The scale of a channel of a weight (nil for activations) whose integers all stand for zero says
// nothing, whatever it is: it is not compared.
func (e *TrainedTensor) compare(p *tqc.Params, weight *tensor.Tensor, cfg *tqc.Config, own *tqc.Params) error {
	if !p.Ready() || len(p.Scale) != len(e.Scale) {
		return nil
	}
	e.Calibrated, e.CalibratedZeroPoint = p.Scale, p.ZeroPoint
	var zero []bool
	if weight != nil && cfg.Policy.Has(tqc.PerChannel) {
		codes, err := tqc.Quantize(weight, cfg, own)
		if err != nil {
			return err
		}
		zero = zeroChannels(codes, weight.Shape, cfg.Axis, e.ZeroPoint)
	}
	most := 1.0
	for i, s := range e.Scale {
		if zero != nil && zero[i] {
			continue
		}
		r := float64(s) / float64(p.Scale[i])
		if math.Abs(math.Log(r)) > math.Abs(math.Log(most)) {
			most = r
		}
	}
	trained := math.Abs(most-1) > sameScale
	e.Trained, e.Ratio = &trained, &most
	return nil
}

// zeroChannels says of which channels along an axis of a row-major tensor all integers are the zero point.
func zeroChannels(codes []int32, shape []int, axis int, zeroPoint []int32) []bool {
	zero, inner := slices.Repeat([]bool{true}, shape[axis]), 1
	for _, n := range shape[axis+1:] {
		inner *= n
	}
	for i, q := range codes {
		if c := i / inner % len(zero); q != zeroPoint[c] {
			zero[c] = false
		}
	}
	return zero
}

// Farthest is the index of the scale that Ratio is of.
func (e *TrainedTensor) Farthest() int {
	for i, s := range e.Scale {
		if e.Ratio != nil && float64(s)/float64(e.Calibrated[i]) == *e.Ratio {
			return i
		}
	}
	return 0
}

// observeImported observes the float model behind a quantized file.
func observeImported(ctx context.Context, j *open.Job, im *qdq.Imported, m *open.Model, o ImportOptions) (*calib.Stats, error) {
	o.Data.Memory = o.Memory / calibrate.DataShare
	o.Data.Threads = o.Threads
	set, pre, err := j.OpenData(im.Graph, o.Data)
	if err != nil {
		return nil, err
	}
	key, err := planning.PreprocessKey(pre)
	if err != nil {
		return nil, err
	}
	float := m.WithGraph(im.Graph)
	stats, warnings, err := calibrate.Observe(ctx, j, &open.Model{Model: float, Path: m.Path, Digest: m.Digest}, set, pre,
		calib.Config{Threads: o.Threads,
			Memory: o.Memory - o.Data.Memory, Warn: j.WarnAbout, Model: m.Digest, Preprocess: key, Seed: o.Data.Seed})
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		j.WarnAbout(w)
	}
	return stats, nil
}

// Farthest lists the tensors that were trained, those farthest from calibration first.
func (t *Trained) Farthest() []TrainedTensor {
	var list []TrainedTensor
	for _, e := range t.Tensors {
		if e.Trained != nil && *e.Trained {
			list = append(list, e)
		}
	}
	arrange.Stable(list, func(a, b TrainedTensor) int {
		return cmp.Compare(math.Abs(math.Log(*b.Ratio)), math.Abs(math.Log(*a.Ratio)))
	})
	return list
}

// Summary says in words what was compared with what.
func (t *Trained) Summary() string {
	text := fmt.Sprintf("weights: %d of %d tensors have scales that were trained, %d are what calibration gives", t.WeightsTrained, t.Weights,
		t.same(true))
	if t.ActivationsTrained == nil {
		return text + fmt.Sprintf("\nactivations: %d scales of the file, not compared: that takes --data", t.Activations)
	}
	return text + fmt.Sprintf("\nactivations: %d of %d tensors have other scales than %s gives on %d samples, %d have those",
		*t.ActivationsTrained, t.Activations, t.Observer, t.Samples, t.same(false))
}

// same counts the weights or activations whose scales are those of calibration.
func (t *Trained) same(weights bool) (n int) {
	for _, e := range t.Tensors {
		if e.Weight == weights && e.Trained != nil && !*e.Trained {
			n++
		}
	}
	return n
}
