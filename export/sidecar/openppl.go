package sidecar

import (
	"encoding/json"
	"fmt"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// OpenPPL on CUDA: {quant_info: {tensor: {...}}, op_info: {node: {data_type: INT8}}}.

type pplTensor struct {
	Bits       int             `json:"bit_width"`
	PerChannel bool            `json:"per_channel"`
	Quantized  bool            `json:"quant_flag"`
	Symmetric  bool            `json:"sym"`
	Scale      json.RawMessage `json:"scale"`
	Zero       json.RawMessage `json:"zero_point"`
	Lo         json.RawMessage `json:"tensor_min"`
	Hi         json.RawMessage `json:"tensor_max"`
	QMin       int32           `json:"q_min"`
	QMax       int32           `json:"q_max"`
	Hash       int             `json:"hash"`
	Dominator  int             `json:"dominator"`
}

func openPPL(in *export.Input, list []table.Tensor) ([]byte, error) {
	var tensors, nodes object
	for i := range list {
		t := &list[i]
		hash := int(t.Root) + 1 // PPQ's are drawn at random
		e := pplTensor{Bits: t.Config.Bits, PerChannel: t.Config.Policy.Has(tqc.PerChannel), Quantized: true,
			Symmetric: t.Config.Policy.Has(tqc.Symmetric), QMin: t.Config.QMin, QMax: t.Config.QMax, Hash: hash, Dominator: hash}
		for _, f := range []struct {
			to *json.RawMessage
			v  any
		}{{&e.Scale, figure(t, scaleOf(t))}, {&e.Zero, figure(t, zeroOf(t))},
			{&e.Lo, figure(t, func(c int) float64 { lo, _ := t.Range(c); return lo })},
			{&e.Hi, figure(t, func(c int) float64 { _, hi := t.Range(c); return hi })}} {
			b, err := json.Marshal(f.v)
			if err != nil {
				return nil, err
			}
			*f.to = b
		}
		if err := tensors.put(t.Name, &e); err != nil {
			return nil, err
		}
	}
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		if in.Set.Domains[id] == tqc.DomainInt {
			if err := nodes.put(g.Node(id).Name, map[string]string{"data_type": "INT8"}); err != nil {
				return nil, err
			}
		}
	}
	var o object
	if err := o.put("quant_info", &tensors); err != nil {
		return nil, err
	}
	if err := o.put("op_info", &nodes); err != nil {
		return nil, err
	}
	return indented(&o)
}

func readOpenPPL(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	var file struct {
		Tensors json.RawMessage `json:"quant_info"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	err = table.Members(file.Tensors, func(name string, v json.RawMessage) error {
		var t pplTensor
		if err := json.Unmarshal(v, &t); err != nil {
			return err
		}
		var cells [4][]float64
		for i, raw := range []json.RawMessage{t.Scale, t.Zero, t.Lo, t.Hi} {
			var err error
			if cells[i], err = numbers(raw); err != nil {
				return err
			}
		}
		first := 0.0
		if t.QMin < 0 {
			first = -128
		}
		e := entry(name, first, cells[0], cells[1])
		if e.Codes = []int32{t.QMin, t.QMax}; t.Bits != 8 {
			e.Fault = fmt.Sprintf("%d bits", t.Bits)
		}
		for c := range e.Offset { // ranges are those of q_min to q_max
			if c < len(e.Scale) && c < len(cells[2]) && c < len(cells[3]) {
				s := e.Scale[c]
				e.Lo = append(e.Lo, cells[2][c]-s*(float64(t.QMin)-first))
				e.Hi = append(e.Hi, cells[3][c]+s*(first+255-float64(t.QMax)))
			}
		}
		if len(e.Lo) != len(e.Scale) {
			e.Lo, e.Hi = nil, nil
		}
		list = append(list, e)
		return nil
	})
	return list, err
}
