package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/strictjson"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/kernels/qmath"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ortArguments are arguments of onnxruntime.quantization.quantize_static, as JSON. Those that are absent decide nothing.
type ortArguments struct {
	NodesToExclude    []string                   `json:"nodes_to_exclude"`
	NodesToQuantize   []string                   `json:"nodes_to_quantize"` // if there are any, all others stay in float
	OpTypesToQuantize []string                   `json:"op_types_to_quantize"`
	PerChannel        *bool                      `json:"per_channel"`
	ReduceRange       *bool                      `json:"reduce_range"`
	ActivationType    string                     `json:"activation_type"`
	WeightType        string                     `json:"weight_type"`
	CalibrateMethod   string                     `json:"calibrate_method"`
	QuantFormat       string                     `json:"quant_format"` // of the file that is written, which qwb export decides
	ExtraOptions      map[string]json.RawMessage `json:"extra_options"`
}

// ortOverride is an entry of TensorQuantOverrides.
type ortOverride struct {
	QuantType   string              `json:"quant_type"`
	Scale       decision.Scales     `json:"scale"`
	ZeroPoint   decision.ZeroPoints `json:"zero_point"`
	Symmetric   *bool               `json:"symmetric"`
	ReduceRange *bool               `json:"reduce_range"`
	Rmin        *float64            `json:"rmin"`
	Rmax        *float64            `json:"rmax"`
}

// ortMethods are the values of CalibrationMethod that there are observers for.
var ortMethods = map[string]tqc.Observer{"minmax": "onnxruntime/minmax", "entropy": "onnxruntime/entropy",
	"percentile": "onnxruntime/percentile"}

// ortTypes are the values of QuantType that are integers.
var ortTypes = map[string]tqc.Scheme{"qint8": {Bits: 8}, "quint8": {Bits: 8, Unsigned: true}, "qint16": {Bits: 16},
	"quint16": {Bits: 16, Unsigned: true}, "qint4": {Bits: 4}, "quint4": {Bits: 4, Unsigned: true}}

// readORT reads arguments of quantize_static, or TensorQuantOverrides alone: lists by the names of tensors.
func readORT(j *open.Job, name string) (Source, error) {
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return Source{}, err
	}
	var a ortArguments
	overrides := map[string][]ortOverride{}
	if ortTensors(src) {
		err = strictjson.Decode(name, src, &overrides)
	} else if err = strictjson.Decode(name, src, &a); err == nil && a.ExtraOptions["TensorQuantOverrides"] != nil {
		err = strictjson.Decode(name+": TensorQuantOverrides", a.ExtraOptions["TensorQuantOverrides"], &overrides)
	}
	if err != nil {
		return Source{}, err
	}
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if err := f.arguments(&a, t); err != nil {
			return nil, err
		}
		return f.r, f.overrides(overrides, t)
	}}, nil
}

// ortTensors reports whether a file is TensorQuantOverrides: a list of objects for each tensor.
func ortTensors(src []byte) bool {
	var m map[string][]map[string]json.RawMessage
	if json.Unmarshal(src, &m) != nil {
		return false
	}
	for _, list := range m {
		if len(list) == 0 {
			return false
		}
	}
	return len(m) > 0
}

// ortWord is the name of an enumeration's value without what Python may print before it: QuantType.QInt8.
func ortWord(s string) string { return strings.ToLower(s[strings.LastIndexByte(s, '.')+1:]) }

// option reads an extra option.
func ortOption[T any](f *foreign, a *ortArguments, key string) (*T, error) {
	raw, ok := a.ExtraOptions[key]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, f.fail("extra option %s: %v", key, err)
	}
	return v, nil
}

// ortKnown are the extra options that are read; of all others a note says that they are not.
var ortKnown = []string{"TensorQuantOverrides", "ActivationSymmetric", "WeightSymmetric", "CalibPercentile"}

// arguments makes decisions of arguments.
func (f *foreign) arguments(a *ortArguments, t *target.Target) error {
	whole := decision.Properties{ReduceRange: a.ReduceRange}
	if a.PerChannel != nil {
		per := !*a.PerChannel
		whole.PerTensor = &per
	}
	percentile, err := ortOption[float64](f, a, "CalibPercentile")
	if err != nil {
		return err
	}
	if a.CalibrateMethod != "" {
		if whole.Observer = ortMethods[ortWord(a.CalibrateMethod)]; whole.Observer == "" {
			return f.fail("calibrate_method %q: one of MinMax, Entropy, Percentile", a.CalibrateMethod)
		}
		if percentile != nil && ortWord(a.CalibrateMethod) == "percentile" {
			whole.Observer = tqc.Observer(fmt.Sprintf("%s(%.12g)", whole.Observer, *percentile/100))
		}
	}
	f.decide("", nil, whole)
	for _, side := range []struct {
		key, word, symmetric string
		is                   tqc.Config
		weights              bool
	}{{"activation_type", a.ActivationType, "ActivationSymmetric", t.Activation, false}, {"weight_type", a.WeightType, "WeightSymmetric",
		t.Weight, true}} {
		symmetric, err := ortOption[bool](f, a, side.symmetric)
		if err != nil {
			return err
		}
		s, err := f.scheme(side.key, side.word, symmetric, side.is, side.weights)
		if err != nil {
			return err
		}
		if own, err := tqc.SchemeOf(side.is); err != nil || s == own || s == (tqc.Scheme{}) {
			continue
		}
		p := decision.Properties{Activations: s}
		if side.weights {
			p = decision.Properties{Weights: s}
		}
		f.decide("onnxruntime "+side.key, decision.Select{"*"}, p)
	}
	for _, key := range slices.Sorted(maps.Keys(a.ExtraOptions)) {
		if !slices.Contains(ortKnown, key) {
			f.Note("%s: extra option %s is not imported", f.file, key)
		}
	}
	f.ortFloat(a)
	return nil
}

// scheme is what a type of onnxruntime is; nothing where neither type nor symmetry is given.
func (f *foreign) scheme(key, word string, symmetric *bool, is tqc.Config, weights bool) (tqc.Scheme, error) {
	own, err := tqc.SchemeOf(is)
	if err != nil || word == "" && symmetric == nil {
		return tqc.Scheme{}, err
	}
	s := own
	if word != "" {
		t, ok := ortTypes[ortWord(word)]
		if !ok {
			return s, f.fail("%s %q: one of QInt8, QUInt8, QInt16, QUInt16, QInt4, QUInt4", key, word)
		}
		s.Type, s.Bits, s.Unsigned = t.Type, t.Bits, t.Unsigned
		s.Asymmetric = !weights || t.Unsigned // as quantize_static has it
	}
	if symmetric != nil {
		s.Asymmetric = !*symmetric
	}
	return s, nil
}

// ortFloat keeps in float what arguments say is not quantized.
func (f *foreign) ortFloat(a *ortArguments) {
	g := f.m.Loaded
	named := func(goal string, names []string) map[graph.NodeID]bool {
		ids := map[graph.NodeID]bool{}
		for _, name := range names {
			if id, ok := g.LookupNode(name); ok {
				ids[id] = true
			} else {
				f.Note("%s: %s: the model has no operator %q", f.file, goal, name)
			}
		}
		return ids
	}
	f.left = append(f.left, leftInFloat{"onnxruntime nodes_to_exclude", named("nodes_to_exclude", a.NodesToExclude)})
	// What is not named stays in float; of that only what the target would quantize needs to be said.
	keep := func(goal string, holds func(id graph.NodeID) bool) {
		ids := map[graph.NodeID]bool{}
		for _, id := range g.Nodes() {
			now, ok := f.m.Graph.LookupNode(g.Node(id).Name)
			if ok && f.a.Domains[now] == tqc.DomainInt && !holds(id) {
				ids[id] = true
			}
		}
		f.left = append(f.left, leftInFloat{goal, ids})
	}
	if len(a.NodesToQuantize) > 0 {
		ids := named("nodes_to_quantize", a.NodesToQuantize)
		keep("onnxruntime nodes_to_quantize", func(id graph.NodeID) bool { return ids[id] })
	}
	if len(a.OpTypesToQuantize) > 0 {
		keep("onnxruntime op_types_to_quantize", func(id graph.NodeID) bool { return slices.Contains(a.OpTypesToQuantize, g.Node(id).Op) })
	}
	f.float()
}

// overrides makes decisions of TensorQuantOverrides.
func (f *foreign) overrides(list map[string][]ortOverride, t *target.Target) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := f.file + ": TensorQuantOverrides: " + name
		v, ok := f.m.Graph.Lookup(name)
		if !ok {
			f.Note("%s: there is no such tensor in the normal form", at)
			continue
		}
		if id := f.m.Graph.Producer(v); id != graph.NoNode && f.a.Domains[id] == tqc.DomainInt && moves(f.m.Graph.Node(id)) {
			f.Note("%s: it has the scale of the tensor that %s moves, as in onnxruntime, and nothing is decided", at, f.m.Graph.Node(id).Name)
			continue
		}
		sel := decision.Select{"input:" + strings.ReplaceAll(name, ",", `\,`)}
		weights := f.m.Graph.Const(v) != nil
		if !weights && !f.m.Graph.IsInput(v) {
			sel[0] = strings.Replace(sel[0], "input:", "output:", 1)
		}
		p, err := f.override(at, list[name], weights, t)
		if err != nil {
			return err
		}
		f.decide("onnxruntime TensorQuantOverrides", sel, p)
	}
	return nil
}

// moves reports whether the output of an operator has the scale of its first input.
func moves(n *graph.Node) bool {
	spec := n.Spec()
	return n.Op == "MaxPool" || n.Op != "Concat" && spec != nil && spec.Kind == graph.KindMover
}

// override is what is decided about one tensor; several entries are those of its channels.
func (f *foreign) override(at string, list []ortOverride, weights bool, t *target.Target) (p decision.Properties, err error) {
	is := t.Activation
	if weights {
		is = t.Weight
	}
	for i := range list {
		o := &list[i]
		fixed := len(o.Scale) > 0
		switch {
		case fixed != (len(o.ZeroPoint) > 0):
			return p, fmt.Errorf("%s: scale and zero_point are given together", at)
		case (o.Rmin == nil) != (o.Rmax == nil), o.Rmin != nil && (fixed || weights):
			return p, fmt.Errorf("%s: rmin and rmax are given together, for an activation without scale", at)
		}
		s, err := f.scheme("quant_type", o.QuantType, o.Symmetric, is, weights)
		if err != nil {
			return p, err
		}
		if s != (tqc.Scheme{}) {
			if is, err = s.Apply(is); err != nil {
				return p, fmt.Errorf("%s: %w", at, err)
			}
			if p.Activations = s; weights {
				p.Activations, p.Weights = tqc.Scheme{}, s
			}
		}
		if p.ReduceRange = o.ReduceRange; !weights {
			p.ReduceRange = nil
		}
		if o.Rmin != nil {
			scale, zero, _, err := qmath.ScaleFromRange(*o.Rmin, *o.Rmax, is.Scheme())
			if err != nil {
				return p, fmt.Errorf("%s: %w", at, err)
			}
			p.Scale, p.ZeroPoint = append(p.Scale, scale), append(p.ZeroPoint, zero)
		}
		p.Scale, p.ZeroPoint = append(p.Scale, o.Scale...), append(p.ZeroPoint, o.ZeroPoint...)
	}
	return p, nil
}
