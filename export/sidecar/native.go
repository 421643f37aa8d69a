package sidecar

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// platforms are PPQ's names of platforms.
var platforms = map[string]string{"trt_int8": "TRT_INT8", "trt10_int8": "TRT_INT8", "trt_fp8": "TRT_FP8", "onnxruntime": "ONNXRUNTIME",
	"openvino_int8": "OPENVINO_INT8", "openvino_int8_amx": "OPENVINO_INT8",
	"ncnn_int8": "NCNN_INT8", "mnn_int8": "MNN_INT8", "tengine_int8": "TENGINE_INT8",
	"ascend_int8":   "ASC_INT8",
	"ppl_cuda_int8": "PPL_CUDA_INT8", "ppl_dsp_int8": "PPL_DSP_INT8", "ppl_dsp_ti_int8": "PPL_DSP_TI_INT8", "qnn": "QNN_DSP_INT8",
	"snpe":     "SNPE_INT8",
	"nxp_int8": "NXP_INT8", "nxp_int8_lut": "NXP_INT8", "fpga_int8": "FPGA_INT8", "fpga_int8_lut": "FPGA_INT8",
	"rknn_int8": "RKNN_INT8", "metax_int8_c": "METAX_INT8_C", "metax_int8_t": "METAX_INT8_T",
	"graphcore_fp8": "GRAPHCORE_FP8"}

// policies are PPQ's names of the properties of a policy, in the order of its enumeration.
var policies = []struct {
	bit  tqc.Policy
	name string
}{{tqc.PerTensor, "PER_TENSOR"}, {tqc.PerChannel, "PER_CHANNEL"}, {tqc.Linear, "LINEAR"}, {tqc.Floating, "FLOATING"},
	{tqc.Symmetric, "SYMMETRICAL"},
	{tqc.Asymmetric, "ASYMMETRICAL"}, {tqc.PowerOf2, "POWER_OF_2"}, {tqc.Dynamic, "DYNAMIC"}}

// policy is written in that order.
type policy tqc.Policy

func (p policy) MarshalJSON() ([]byte, error) {
	var o object
	for _, q := range policies {
		if err := o.put(q.name, tqc.Policy(p).Has(q.bit)); err != nil {
			return nil, err
		}
	}
	return o.MarshalJSON()
}

func (p *policy) UnmarshalJSON(b []byte) error {
	has := map[string]bool{}
	if err := json.Unmarshal(b, &has); err != nil {
		return err
	}
	for _, q := range policies {
		if has[q.name] {
			*p |= policy(q.bit)
		}
	}
	return nil
}

// config is a slot in PPQ's JSON. hash stands for it, dominator for the slot whose value it has.
type config struct {
	Bits      int    `json:"bit_width"`
	Policy    policy `json:"policy"`
	State     string `json:"state"`
	QMin      int32  `json:"quant_min"`
	QMax      int32  `json:"quant_max"`
	Hash      int    `json:"hash"`
	Dominator int    `json:"dominator"`
}

type value struct {
	Scale json.RawMessage `json:"scale"`
	Zero  json.RawMessage `json:"zero_point"`
}

// native is the configured graph as PPQ's exporters write it. Hashes are the numbers of slots where PPQ draws them at random.
func native(in *export.Input, _ []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	platform := platforms[in.Target.Name]
	if platform == "" {
		platform = "UNSPECIFIED"
	}
	all, err := table.Of(in)
	if err != nil {
		return nil, err
	}
	copies := map[graph.Use]string{} // of constants that the model has once more, for who wants another encoding
	for i := range all {
		for _, u := range all[i].Uses {
			copies[u] = all[i].Name
		}
	}
	var configs, dispatchings, values object
	rendered := map[tqc.SlotID]bool{}
	for _, id := range order {
		n := g.Node(id)
		var slots object
		named := map[string]bool{}
		for _, s := range slices.Concat(in.Set.Inputs(id), in.Set.Outputs(id)) {
			if s == tqc.NoSlot || in.Set.Slot(s).State() == tqc.FP32 {
				continue
			}
			slot, root := in.Set.Slot(s), in.Set.Root(s)
			name := g.Value(slot.Value).Name
			if own := copies[graph.Use{Node: id, Index: slot.Index}]; own != "" && slot.Kind == tqc.Input {
				name = own
			}
			if named[name] { // read twice by one node: PPQ keeps the last, which is the same
				continue
			}
			named[name] = true
			if err := slots.put(name, config{slot.Config.Bits, policy(slot.Config.Policy), slot.State().String(), slot.Config.QMin, slot.Config.QMax,
				int(s) + 1, int(root) + 1}); err != nil {
				return nil, err
			}
			if p := in.Set.Params(root); !rendered[root] && p.Ready() {
				rendered[root] = true
				t := table.Tensor{Config: &in.Set.Slot(root).Config, Params: p}
				if err := values.put(fmt.Sprint(int(root)+1),
					map[string]any{"scale": figure(&t, scaleOf(&t)), "zero_point": figure(&t, zeroOf(&t))}); err != nil {
					return nil, err
				}
			}
		}
		where := "FP32"
		switch in.Set.Domains[id] {
		case tqc.DomainInt:
			where = platform
			if err := configs.put(n.Name, &slots); err != nil {
				return nil, err
			}
		case tqc.DomainSOI:
			where = "SOI"
		}
		if err := dispatchings.put(n.Name, where); err != nil {
			return nil, err
		}
	}
	var o object
	for _, part := range []struct {
		name string
		of   *object
	}{{"configs", &configs}, {"dispatchings", &dispatchings}, {"values", &values}} {
		if err := o.put(part.name, part.of); err != nil {
			return nil, err
		}
	}
	return indented(&o)
}

// readNative lists each tensor once, as the first slot has it that quantizes it.
func readNative(b []byte, g *graph.Graph) (list []table.Entry, err error) {
	all, err := readSlots(b, g)
	seen := map[string]bool{}
	for _, e := range all {
		if !seen[e.Name] {
			list = append(list, e)
		}
		seen[e.Name] = true
	}
	return list, err
}

// readSlots lists what every slot says, in the order of the names of nodes.
func readSlots(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	var file struct {
		Configs map[string]json.RawMessage `json:"configs"`
		Values  map[string]value           `json:"values"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	var nodes []string
	for name := range file.Configs {
		nodes = append(nodes, name)
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		err := table.Members(file.Configs[node], func(name string, v json.RawMessage) error {
			var c config
			if err := json.Unmarshal(v, &c); err != nil {
				return err
			}
			e := table.Entry{Name: name, Bits: c.Bits, Axis: -1, Codes: []int32{c.QMin, c.QMax}}
			var state tqc.State
			of, ok := file.Values[fmt.Sprint(c.Dominator)]
			switch {
			case tqc.Policy(c.Policy).Valid() != nil:
				e.Fault = fmt.Sprint(tqc.Policy(c.Policy).Valid())
			case state.UnmarshalText([]byte(c.State)) != nil:
				e.Fault = fmt.Sprintf("state %q", c.State)
			case !ok:
				e.Fault = fmt.Sprintf("no value of dominator %d", c.Dominator)
			}
			if e.Fault == "" {
				zeros, err := numbers(of.Zero)
				if err != nil {
					return err
				}
				if e.Scale, err = numbers(of.Scale); err != nil {
					return err
				}
				first := 0.0
				if c.QMin < 0 {
					first = -math.Ldexp(1, c.Bits-1)
				}
				for _, z := range zeros {
					e.Offset = append(e.Offset, first-z)
				}
				e.Float = tqc.Policy(c.Policy).Has(tqc.Floating)
			}
			list = append(list, e)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", node, err)
		}
	}
	return list, nil
}
