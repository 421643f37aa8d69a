package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// arguments are those of another tool's function as JSON, by name. Each is taken once; a note names those that are left.
type arguments struct {
	file string
	of   map[string]json.RawMessage
}

// readArguments reads a file of arguments, by themselves or as the value of a key.
func readArguments(j *open.Job, name, under string) (*arguments, error) {
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return nil, err
	}
	a := &arguments{name, nil}
	if err := json.Unmarshal(src, &a.of); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if inner, ok := a.of[under]; ok {
		a.of = nil
		if err := json.Unmarshal(inner, &a.of); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, under, err)
		}
	}
	return a, nil
}

// take reads an argument into v, which keeps what it is where the argument is absent or null.
func (a *arguments) take(key string, v any) error {
	raw, ok := a.of[key]
	delete(a.of, key)
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %s: %w", a.file, key, err)
	}
	return nil
}

func (a *arguments) takeAll(to map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if err := a.take(key, to[key]); err != nil {
			return err
		}
	}
	return nil
}

func (a *arguments) left(j *open.Job) {
	if len(a.of) > 0 {
		j.Note("%s: not imported: %s", a.file, strings.Join(slices.Sorted(maps.Keys(a.of)), ", "))
	}
}

// readModelOpt reads arguments of modelopt.onnx.quantization.quantize (NVIDIA Model Optimizer).
func readModelOpt(j *open.Job, name string) (Source, error) {
	a, err := readArguments(j, name, "")
	if err != nil {
		return Source{}, err
	}
	var o ortArguments
	var mode, method string
	var excluded, patterns, wanted []string
	if err := a.takeAll(map[string]any{"quantize_mode": &mode, "calibration_method": &method, "op_types_to_exclude": &excluded,
		"op_types_to_quantize": &o.OpTypesToQuantize, "nodes_to_exclude": &patterns, "nodes_to_quantize": &wanted}); err != nil {
		return Source{}, err
	}
	compiled := map[string]*regexp.Regexp{}
	for _, p := range slices.Concat(patterns, wanted) {
		if compiled[p], err = regexp.Compile(`^(?:` + p + `)`); err != nil {
			return Source{}, fmt.Errorf("%s: pattern %q: %w", name, p, err)
		}
	}
	known := map[string]string{"": "", "max": "MinMax", "entropy": "Entropy"}
	if o.CalibrateMethod = known[method]; method != "" && o.CalibrateMethod == "" {
		return Source{}, fmt.Errorf("%s: calibration_method %q: one of max, entropy", name, method)
	}
	if !slices.Contains([]string{"", "int8", "fp8"}, mode) {
		return Source{}, fmt.Errorf("%s: quantize_mode %q: one of int8, fp8 is imported", name, mode)
	}
	a.left(j)
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if mode == "fp8" {
			r, err := decision.FindPreset("fp8")
			if err != nil {
				return nil, err
			}
			fitPreset(r, t)
			f.r.Steps = append(f.r.Steps, r.Steps...)
		}
		o := o
		o.NodesToQuantize = f.matching(wanted, compiled)
		if len(wanted) > 0 && len(o.NodesToQuantize) == 0 {
			return nil, f.fail("nodes_to_quantize matches no operator of the model")
		}
		f.leave("modelopt op_types_to_exclude", func(n *graph.Node) bool { return slices.Contains(excluded, n.Op) })
		f.leave("modelopt nodes_to_exclude", func(n *graph.Node) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return compiled[p].MatchString(n.Name) })
		})
		return f.r, f.arguments(&o, t)
	}}, nil
}

// leave keeps in float, as one decision, the operators of the file for which is holds.
func (f *foreign) leave(goal string, is func(n *graph.Node) bool) {
	ids := map[graph.NodeID]bool{}
	for _, id := range f.m.Loaded.Nodes() {
		if is(f.m.Loaded.Node(id)) {
			ids[id] = true
		}
	}
	f.left = append(f.left, leftInFloat{goal, ids})
}

// matching are the names of operators of the file that begin with what a pattern matches; a note names patterns that match none.
func (f *foreign) matching(patterns []string, compiled map[string]*regexp.Regexp) (names []string) {
	for _, p := range patterns {
		n := len(names)
		for _, id := range f.m.Loaded.Nodes() {
			if name := f.m.Loaded.Node(id).Name; compiled[p].MatchString(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == n {
			f.Note("%s: pattern %q matches no operator of the model", f.file, p)
		}
	}
	return names
}

// readQuark reads quark.onnx's QuantizationConfig (AMD Quark), by itself or under global_quant_config.
func readQuark(j *open.Job, name string) (Source, error) {
	a, err := readArguments(j, name, "global_quant_config")
	if err != nil {
		return Source{}, err
	}
	var o ortArguments
	var method string
	var excluded []string
	if err := a.takeAll(map[string]any{"calibrate_method": &method, "activation_type": &o.ActivationType, "weight_type": &o.WeightType,
		"per_channel": &o.PerChannel, "reduce_range": &o.ReduceRange, "op_types_to_quantize": &o.OpTypesToQuantize,
		"op_types_to_exclude": &excluded, "nodes_to_quantize": &o.NodesToQuantize, "nodes_to_exclude": &o.NodesToExclude,
		"quant_format": &o.QuantFormat, "extra_options": &o.ExtraOptions}); err != nil {
		return Source{}, err
	}
	powers := strings.Contains(method, "PowerOfTwoMethod") || strings.Contains(method, "NonOverflow") || strings.Contains(method, "MinMSE")
	if !powers {
		o.CalibrateMethod = method
	}
	a.left(j)
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if powers {
			if !t.Activation.Policy.Has(tqc.PowerOf2) {
				return nil, f.fail("calibrate_method %s gives scales that are powers of two, and %s has others: choose a platform such as xint8",
					method, t.Name)
			}
			way := map[bool]tqc.Observer{true: tqc.ObserverMinMax, false: tqc.ObserverMSE}[strings.Contains(method, "NonOverflow")]
			f.decide("quark calibrate_method", nil, decision.Properties{Observer: way})
		}
		f.leave("quark op_types_to_exclude", func(n *graph.Node) bool { return slices.Contains(excluded, n.Op) })
		return f.r, f.arguments(&o, t)
	}}, nil
}
