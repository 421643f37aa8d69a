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
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// quark is a configuration of quark.onnx: what it shares with quantize_static, and what it has of its own.
type quark struct {
	ortArguments
	method   string   // calibrate_method
	excluded []string // types of operators
}

// quarkTensor is how QConfig describes the activations or the weights of a layer.
type quarkTensor struct {
	Symmetric   bool   `json:"symmetric"`
	ScaleType   string `json:"scale_type"`
	Method      string `json:"calibration_method"`
	Granularity string `json:"quant_granularity"`
	Type        string `json:"data_type"`
}

type quarkLayer struct {
	Inputs     *quarkTensor `json:"input_tensors"`
	Activation *quarkTensor `json:"activation"`
	Weight     *quarkTensor `json:"weight"`
}

// quarkRule is a layer's configuration, null for none of integers, and the names or types that it holds for.
type quarkRule struct {
	layer *json.RawMessage
	names []string
}

func (r *quarkRule) UnmarshalJSON(src []byte) error {
	return json.Unmarshal(src, &[]any{&r.layer, &r.names})
}

// readQuark reads a configuration of quark.onnx (AMD Quark): what QConfig's to_dict gives, or the older QuantizationConfig, by itself or
// under global_quant_config.
func readQuark(j *open.Job, name string) (Source, error) {
	a, err := readArguments(j, name, "global_quant_config")
	if err != nil {
		return Source{}, err
	}
	var q quark
	if a.of["global_config"] == nil {
		err = a.takeAll(map[string]any{"calibrate_method": &q.method, "activation_type": &q.ActivationType, "weight_type": &q.WeightType,
			"per_channel": &q.PerChannel, "reduce_range": &q.ReduceRange, "op_types_to_quantize": &q.OpTypesToQuantize,
			"op_types_to_exclude": &q.excluded, "nodes_to_quantize": &q.NodesToQuantize, "nodes_to_exclude": &q.NodesToExclude,
			"quant_format": &q.QuantFormat, "extra_options": &q.ExtraOptions})
	} else {
		err = q.readLayers(j, a)
	}
	if err != nil {
		return Source{}, err
	}
	a.left(j)
	patterns, err := q.patterns(name)
	if err != nil {
		return Source{}, err
	}
	if q.percentile() {
		q.CalibrateMethod = "Percentile"
	} else if !q.powers() {
		q.CalibrateMethod = q.method
	}
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		if q.powers() {
			if !t.Activation.Policy.Has(tqc.PowerOf2) {
				return nil, f.fail("calibrate_method %s gives scales that are powers of two, and %s has others: choose a platform such as xint8",
					q.method, t.Name)
			}
			way := map[bool]tqc.Observer{true: tqc.ObserverMinMax, false: tqc.ObserverMSE}[strings.Contains(q.method, "NonOverflow")]
			f.decide("quark calibrate_method", nil, decision.Properties{Observer: way})
		}
		f.leave("quark op_types_to_exclude", func(n *graph.Node) bool { return slices.Contains(q.excluded, n.Op) })
		if len(patterns) > 0 {
			f.leave("quark patterns", func(n *graph.Node) bool {
				return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(n.Name) })
			})
		}
		o := q.ortArguments
		return f.r, f.arguments(&o, t)
	}}, nil
}

func (q *quark) powers() bool {
	return strings.Contains(q.method, "PowerOfTwoMethod") || strings.Contains(q.method, "NonOverflow") || strings.Contains(q.method, "MinMSE")
}

// percentile reports whether ranges are percentiles, and names their option as onnxruntime does: Quark's is Percentile, by default 99.9999.
func (q *quark) percentile() bool {
	if ortWord(q.method) != "percentile" {
		return false
	}
	q.ExtraOptions = maps.Clone(q.ExtraOptions)
	if q.ExtraOptions == nil {
		q.ExtraOptions = map[string]json.RawMessage{}
	}
	q.ExtraOptions["CalibPercentile"] = json.RawMessage("99.9999")
	if p, ok := q.ExtraOptions["Percentile"]; ok {
		q.ExtraOptions["CalibPercentile"] = p
		delete(q.ExtraOptions, "Percentile")
	}
	return true
}

// patterns takes out of the names of operators those that begin with ^, which Quark searches names for.
func (q *quark) patterns(file string) (patterns []*regexp.Regexp, err error) {
	q.NodesToExclude = slices.DeleteFunc(q.NodesToExclude, func(s string) bool {
		if !strings.HasPrefix(s, "^") || err != nil {
			return false
		}
		p, e := regexp.Compile(s)
		if e != nil {
			err = fmt.Errorf("%s: pattern %q: %w", file, s, e)
		}
		patterns = append(patterns, p)
		return true
	})
	return patterns, err
}

// readLayers reads what QConfig's to_dict gives.
func (q *quark) readLayers(j *open.Job, a *arguments) error {
	var layer quarkLayer
	var exclude []json.RawMessage
	var types, layers []quarkRule
	if err := a.takeAll(map[string]any{"global_config": &layer, "exclude": &exclude, "layer_type_config": &types,
		"specific_layer_config": &layers, "extra_options": &q.ExtraOptions}); err != nil {
		return err
	}
	if layer.Inputs != nil {
		layer.Activation = layer.Inputs
	}
	if q.ExtraOptions == nil {
		q.ExtraOptions = map[string]json.RawMessage{}
	}
	for _, list := range []struct {
		key string
		to  *[]string
	}{{"OpTypesToQuantize", &q.OpTypesToQuantize}, {"NodesToQuantize", &q.NodesToQuantize}} {
		if err := json.Unmarshal(q.ExtraOptions[list.key], list.to); q.ExtraOptions[list.key] != nil && err != nil {
			return fmt.Errorf("%s: %s: %w", a.file, list.key, err)
		}
		delete(q.ExtraOptions, list.key)
	}
	symmetric := func(key string, t *quarkTensor) { q.ExtraOptions[key], _ = json.Marshal(t.Symmetric) }
	if t := layer.Activation; t != nil {
		q.ActivationType, q.method = "Q"+t.Type, ortWord(t.Method)
		if ortWord(t.ScaleType) == "powerof2" {
			q.method = map[string]string{"minmax": "PowerOfTwoMethod.NonOverflow"}[q.method]
			if q.method == "" {
				q.method = "PowerOfTwoMethod.MinMSE"
			}
		}
		symmetric("ActivationSymmetric", t)
	}
	if t := layer.Weight; t != nil {
		per := ortWord(t.Granularity) == "channel"
		q.WeightType, q.PerChannel = "Q"+t.Type, &per
		symmetric("WeightSymmetric", t)
	}
	for _, raw := range exclude {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			j.Note("%s: exclude: a subgraph is not imported: %s", a.file, raw)
			continue
		}
		q.NodesToExclude = append(q.NodesToExclude, one)
	}
	for _, r := range slices.Concat(types, layers) {
		if r.layer != nil {
			j.Note("%s: the configuration of %s alone is not imported", a.file, strings.Join(r.names, ", "))
		}
	}
	for _, r := range types {
		if r.layer == nil {
			q.excluded = append(q.excluded, r.names...)
		}
	}
	return nil
}
