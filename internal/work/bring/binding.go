// Package bring is how models come in from elsewhere: quantized by another tool, trained with quantization, with dimensions left open.
package bring

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"qwb/calib/data"
	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// BindOptions are the arguments of bind.
type BindOptions struct {
	Inputs []string // name=number or name=file.npy
	Shapes []string // name=numbers
	Dims   []string // symbol=number
	// Float32 makes inputs, outputs and all that is computed in float16, bfloat16 or float64 float32.
	Float32 bool
	Out     string
}

// BindResult is what bind --json prints.
type BindResult struct {
	Model string `json:"model"`
	// Before and Nodes are how many nodes there were and are, bodies of control flow not counted.
	Before int `json:"before"`
	Nodes  int `json:"nodes"`
	// Branches is how many If were decided.
	Branches int `json:"branches"`
}

func Bind(ctx context.Context, j *open.Job, o BindOptions) (*BindResult, error) {
	m, err := j.OpenModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if j.SameFile(j.Model, o.Out) {
		return nil, fmt.Errorf("bind: %s would be replaced: name another file with -o", j.Model)
	}
	g := m.Loaded.Clone()
	r := &BindResult{Model: o.Out, Before: len(g.Nodes())}
	for _, arg := range o.Inputs {
		if err := bindInput(j, g, arg); err != nil {
			return nil, &fault.FileError{Stage: "bind", File: j.Model, Err: err}
		}
	}
	sizes, err := bindSizes(g, o.Dims)
	for _, arg := range o.Shapes {
		if err == nil {
			err = bindShape(g, arg, sizes)
		}
	}
	if err != nil {
		return nil, &fault.FileError{Stage: "bind", File: j.Model, Err: err}
	}
	if errs := graph.Bind(g, sizes); len(errs) > 0 {
		return nil, &fault.FileError{Stage: "bind", File: j.Model, Err: errs[0]}
	}
	list := []passes.Pass{passes.ConstantNodes, passes.FoldConstants, passes.Branches, passes.NoOps, passes.DeadCode, passes.SweepConstants}
	if o.Float32 {
		list = append(list, passes.Float32, passes.Casts)
	}
	log, err := passes.Run(ctx, g, list)
	if err != nil {
		return nil, &fault.FileError{Stage: "bind", File: j.Model, Err: err}
	}
	graph.InferShapes(g)
	r.Nodes, r.Branches = len(g.Nodes()), log.Count(passes.Branches.Name)
	if err := j.SaveModel(m.WithGraph(g), o.Out); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	return r, nil
}

// openInput finds an input that is fed.
func openInput(g *graph.Graph, flag, name string) (*graph.Value, error) {
	v, known := g.Lookup(name)
	if !known || !g.IsInput(v) || g.Const(v) != nil {
		return nil, fault.Usagef("--%s %s: the model has no such input", flag, name)
	}
	return g.Value(v), nil
}

// bindInput makes an input of g the constant that name=value says.
func bindInput(j *open.Job, g *graph.Graph, arg string) error {
	name, value, ok := strings.Cut(arg, "=")
	if !ok || name == "" || value == "" {
		return fault.Usagef("--input %q: not NAME=VALUE", arg)
	}
	val, err := openInput(g, "input", name)
	if err != nil {
		return err
	}
	t, err := bindValue(j, val, value)
	if err != nil {
		return fmt.Errorf("--input %s: %w", name, err)
	}
	if t, err = data.Convert(t, val.DType); err != nil {
		return fmt.Errorf("--input %s: %w", name, err)
	}
	var kept []graph.ValueID
	for _, in := range g.Inputs {
		if in != val.ID {
			kept = append(kept, in)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("--input %s: it is the model's only input", name)
	}
	g.Inputs = kept
	g.SetConst(val.ID, t)
	return nil
}

// bindArray reads an array after its header fits the input and the memory that there is.
func bindArray(j *open.Job, val *graph.Value, path string) (*tensor.Tensor, error) {
	src, err := j.Files().Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	r := bufio.NewReader(src)
	h, err := npy.ReadHeader(r)
	if err != nil {
		return nil, err
	}
	got := tensor.TypeString(h.DType, h.Shape)
	fits := len(h.Shape) == len(val.Shape)
	for i := 0; fits && i < len(h.Shape); i++ {
		fits = !val.Shape[i].Known() || int(val.Shape[i].N) == h.Shape[i]
	}
	if !fits {
		return nil, fmt.Errorf("%s for %s", got, graph.FormatType(val.DType, val.Shape))
	}
	// It is converted, what it decides is computed, and the model is written: about four times.
	if most := exec.AvailableMemory() / 4; most > 0 && h.Bytes() > most {
		return nil, &exec.MemoryError{Type: got, Bytes: h.Bytes(), Budget: most}
	}
	return h.Read(r)
}

// bindValue reads an array, or a number for an input of one element.
func bindValue(j *open.Job, val *graph.Value, text string) (*tensor.Tensor, error) {
	if strings.HasSuffix(strings.ToLower(text), ".npy") {
		return bindArray(j, val, text)
	}
	shape := make([]int, len(val.Shape))
	for i, d := range val.Shape {
		if d.Known() && d.N != 1 {
			return nil, fmt.Errorf("a number for %s: name an npy file", graph.FormatType(val.DType, val.Shape))
		}
		shape[i] = 1
	}
	if val.DType.IsFloat() && val.DType != tensor.Float32 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		return data.Convert(&tensor.Tensor{DType: tensor.Float64, Shape: shape, Data: []float64{x}}, val.DType)
	}
	t := tensor.New(val.DType, shape...)
	var err error
	switch d := t.Data.(type) {
	case []int64:
		d[0], err = strconv.ParseInt(text, 10, 64)
	case []int32:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		d[0] = int32(n)
	case []float32:
		var x float64
		x, err = strconv.ParseFloat(text, 32)
		d[0] = float32(x)
	case []bool:
		d[0], err = strconv.ParseBool(text)
	default:
		return nil, fmt.Errorf("a number for %s: name an npy file", graph.FormatType(val.DType, val.Shape))
	}
	return t, err
}

// bindSizes reads symbol=size, each of which has to be a symbol of the inputs.
func bindSizes(g *graph.Graph, args []string) (map[string]int64, error) {
	symbols := map[string]bool{}
	for _, v := range g.Inputs {
		for _, d := range g.Value(v).Shape {
			if !d.Known() && d.Symbol != "" {
				symbols[d.Symbol] = true
			}
		}
	}
	sizes := map[string]int64{}
	for _, arg := range args {
		symbol, text, _ := strings.Cut(arg, "=")
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return nil, fault.Usagef("--dim %q: not SYMBOL=SIZE with a size of 1 or more", arg)
		}
		if !symbols[symbol] {
			return nil, fault.Usagef("--dim %s: no input has such a dimension", symbol)
		}
		sizes[symbol] = n
	}
	return sizes, nil
}

// bindShape gives an input the shape that name=sizes says; sizes of symbols are added to those of the others.
func bindShape(g *graph.Graph, arg string, sizes map[string]int64) error {
	name, text, _ := strings.Cut(arg, "=")
	val, err := openInput(g, "shape", name)
	if err != nil {
		return err
	}
	list := strings.Split(text, ",")
	if val.Shape != nil && len(list) != len(val.Shape) {
		return fault.Usagef("--shape %s: %d sizes for %s", arg, len(list), graph.FormatType(val.DType, val.Shape))
	}
	shape := make(graph.Shape, len(list))
	for i, word := range list {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n < 1 {
			return fault.Usagef("--shape %q: not NAME=SIZE,SIZE... with sizes of 1 or more", arg)
		}
		shape[i] = graph.Dim{N: n}
		if val.Shape == nil {
			continue
		}
		d := val.Shape[i]
		if bound, ok := sizes[d.Symbol]; d.Known() && d.N != n || d.Symbol != "" && ok && bound != n {
			return fault.Usagef("--shape %s: size %d is %d already", arg, i, max(d.N, bound))
		}
		if d.Symbol != "" {
			sizes[d.Symbol] = n
		}
	}
	val.Shape = shape
	return nil
}
