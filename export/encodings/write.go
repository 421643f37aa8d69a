package encodings

import (
	"encoding/json"
	"fmt"

	"qwb/export/table"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// affine is an entry of 0.6.1: one channel, or the whole tensor. Codes are 0 to 2^bitwidth-1 and stand for scale*(code + offset).
type affine struct {
	floating
	Symmetric string  `json:"is_symmetric"` // "True" or "False"
	Max       float64 `json:"max"`
	Min       float64 `json:"min"`
	Offset    int64   `json:"offset"`
	Scale     float64 `json:"scale"`
}

// floating is an entry of 0.6.1 for what stays float.
type floating struct {
	Bitwidth int    `json:"bitwidth"`
	DType    string `json:"dtype"`
}

// listed is an entry of 1.0.0. The order of scales is that of the channels, and of the blocks within a channel.
type listed struct {
	BW        int       `json:"bw"`
	Block     int       `json:"block_size,omitempty"`
	DType     string    `json:"dtype"`
	Type      string    `json:"enc_type"`
	Symmetric *bool     `json:"is_sym,omitempty"`
	Name      string    `json:"name"`
	Offset    []int64   `json:"offset,omitempty"`
	Scale     []float64 `json:"scale,omitempty"`
}

// linear is an entry of 2.0.0: what a QuantizeLinear has.
type linear struct {
	Name  string `json:"name"`
	DType string `json:"output_dtype"`
	Scale any    `json:"y_scale"`
	Zero  any    `json:"y_zero_point,omitempty"`
	Axis  *int   `json:"axis,omitempty"`
	Block int    `json:"block_size,omitempty"`
}

// producer says who wrote a file of 2.0.0 and above.
type producer struct {
	Package string `json:"package"`
	Version string `json:"version"`
}

// arguments are quantizer_args of 0.6.1 and 1.0.0; yes is "True" in the first and true in the second.
type arguments struct {
	ActivationBits int    `json:"activation_bitwidth"`
	DType          string `json:"dtype"`
	Symmetric      any    `json:"is_symmetric"`
	ParamBits      int    `json:"param_bitwidth"`
	PerChannel     any    `json:"per_channel_quantization"`
	Scheme         string `json:"quant_scheme"`
}

// float16 is what tensors are that stay float: AIMET's reader knows no other float in these versions, and the backend computes in it.
const float16 = 16

// offset is what is added to a code of 0 to 2^bits-1: the grid's integers are those minus 2^(bits-1) where they are signed.
func offset(c *tqc.Config, g qmath.Grid) int64 {
	z := int64(g.ZeroPoint)
	if c.Signed() {
		z += 1 << (c.Bits - 1)
	}
	return -z
}

func channels(t *table.Tensor) int { return len(t.Params.Scale) }

func oldest(t *table.Tensor) any {
	if !t.Encoded() {
		return []floating{{float16, "float"}}
	}
	list := make([]affine, channels(t))
	for c := range list {
		g := t.Grid(c)
		o, top := offset(t.Config, g), int64(1)<<t.Config.Bits-1
		list[c] = affine{floating: floating{t.Config.Bits, "int"}, Symmetric: python(symmetric(t)), Scale: float64(g.Scale), Offset: o,
			Min: float64(g.Scale) * float64(o), Max: float64(g.Scale) * float64(o+top)}
	}
	return list
}

// symmetric is what AIMET calls so: signed integers with zero point 0.
func symmetric(t *table.Tensor) bool {
	for c := range channels(t) {
		if t.Grid(c).ZeroPoint != 0 {
			return false
		}
	}
	return t.Config.Signed()
}

func python(v bool) string {
	if v {
		return "True"
	}
	return "False"
}

func second(t *table.Tensor) listed {
	if !t.Encoded() {
		return listed{Name: t.Name, DType: "FLOAT", BW: float16, Type: "PER_TENSOR"}
	}
	is := symmetric(t)
	e := listed{Name: t.Name, DType: "INT", BW: t.Config.Bits, Type: "PER_TENSOR", Symmetric: &is}
	switch {
	case t.Config.Policy.Has(tqc.PerGroup):
		e.Type, e.Block = "PER_BLOCK", t.Config.GroupSize
	case t.Config.Policy.Has(tqc.PerChannel):
		e.Type = "PER_CHANNEL"
	}
	for c := range channels(t) {
		g := t.Grid(c)
		e.Scale, e.Offset = append(e.Scale, float64(g.Scale)), append(e.Offset, offset(t.Config, g))
	}
	return e
}

// last is nil for what stays float: in 2.0.0 that has no entry.
func last(g *graph.Graph, t *table.Tensor) (*linear, error) {
	if !t.Encoded() {
		return nil, nil
	}
	e := &linear{Name: t.Name, DType: t.Config.FormatName()}
	var scales []float64
	var zeros []int64
	shifted := false
	for c := range channels(t) {
		grid := t.Grid(c)
		scales, zeros = append(scales, float64(grid.Scale)), append(zeros, int64(grid.ZeroPoint))
		shifted = shifted || grid.ZeroPoint != 0
	}
	if t.Config.Policy.Has(tqc.PerTensor) {
		if e.Scale = scales[0]; shifted {
			e.Zero = zeros[0]
		}
		return e, nil
	}
	axis := t.Config.Axis
	e.Axis = &axis
	if !t.Config.Policy.Has(tqc.PerGroup) {
		if e.Scale = scales; shifted {
			e.Zero = zeros
		}
		return e, nil
	}
	shape := g.Const(t.Value).Shape
	if len(shape) != 2 || axis < 0 || axis > 1 {
		return nil, fmt.Errorf("groups along axis %d of %v: only of matrices", axis, shape)
	}
	e.Block = t.Config.GroupSize
	rows := shape[0]
	if axis == 0 {
		rows = (shape[0] + e.Block - 1) / e.Block
	}
	if e.Scale = matrix(scales, rows); shifted {
		e.Zero = matrix(zeros, rows)
	}
	return e, nil
}

func matrix[T any](list []T, rows int) [][]T {
	out, n := make([][]T, rows), len(list)/rows
	for i := range out {
		out[i] = list[i*n : (i+1)*n]
	}
	return out
}

// document renders the list of tensors in a version.
func document(g *graph.Graph, list []table.Tensor, version, by, release string) ([]byte, error) {
	args := arguments{DType: "int", Scheme: "post_training_tf_enhanced"}
	perChannel, symmetricParams := false, true
	for i := range list {
		t := &list[i]
		switch {
		case !t.Encoded():
		case t.Kind.Constant():
			perChannel = perChannel || channels(t) > 1
			if t.Kind == table.Weight {
				args.ParamBits, symmetricParams = max(args.ParamBits, t.Config.Bits), symmetricParams && symmetric(t)
			}
		default:
			args.ActivationBits = max(args.ActivationBits, t.Config.Bits)
		}
	}
	var doc any
	switch version {
	case v061:
		args.Symmetric, args.PerChannel = python(symmetricParams), python(perChannel)
		activations, params := map[string]any{}, map[string]any{}
		for i := range list {
			if t := &list[i]; t.Kind.Constant() {
				params[t.Name] = oldest(t)
			} else {
				activations[t.Name] = oldest(t)
			}
		}
		doc = struct {
			Activations map[string]any `json:"activation_encodings"`
			Params      map[string]any `json:"param_encodings"`
			Args        arguments      `json:"quantizer_args"`
			Version     string         `json:"version"`
		}{activations, params, args, version}
	case v100:
		args.Symmetric, args.PerChannel = symmetricParams, perChannel
		activations, params := []listed{}, []listed{}
		for i := range list {
			if t := &list[i]; t.Kind.Constant() {
				params = append(params, second(t))
			} else {
				activations = append(activations, second(t))
			}
		}
		doc = struct {
			Activations []listed  `json:"activation_encodings"`
			Excluded    []string  `json:"excluded_layers"`
			Params      []listed  `json:"param_encodings"`
			Args        arguments `json:"quantizer_args"`
			Version     string    `json:"version"`
		}{activations, []string{}, params, args, version}
	default:
		entries := []*linear{}
		for i := range list {
			e, err := last(g, &list[i])
			if err != nil {
				return nil, g.ErrorAt("export encodings", list[i].Node, fmt.Errorf("%s: %w", list[i].Name, err))
			}
			if e != nil {
				entries = append(entries, e)
			}
		}
		doc = struct {
			Encodings []*linear `json:"encodings"`
			Producer  producer  `json:"producer"`
			Version   string    `json:"version"`
		}{entries, producer{by, release}, version}
	}
	b, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
