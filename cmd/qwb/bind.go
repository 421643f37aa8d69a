package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// bindOptions are the arguments of bind.
type bindOptions struct {
	model  string
	inputs []string // name=number or name=file.npy
	shapes []string // name=numbers
	dims   []string // symbol=number
	out    string
}

// bindResult is what bind --json prints.
type bindResult struct {
	Model string `json:"model"`
	// Before and Nodes are how many nodes there were and are, bodies of control flow not counted.
	Before int `json:"before"`
	Nodes  int `json:"nodes"`
	// Branches is how many If were decided.
	Branches int `json:"branches"`
}

func newBind(e *env) *cobra.Command {
	var f flags
	var o bindOptions
	c := &cobra.Command{
		Use:   "bind MODEL --input NAME=VALUE --shape NAME=SIZES --dim SYMBOL=SIZE -o FILE",
		Short: "Write a copy of a model in which inputs and open dimensions have fixed values",
		Long: `Bind writes a copy in which an input is a constant, or an open dimension of the inputs has a size. What that decides is resolved:
computations on constants and shapes, and every If whose condition is known then, whose branch becomes part of the network and can be
quantized like the rest of it.

  qwb bind silero_vad.onnx --input sr=16000 --shape input=1,576 --shape state=2,1,128 -o silero_16k.onnx

The value of an input is a number, or an npy file of its shape. The model itself stays as it is.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			o.model = args[0]
			if o.out == "" || len(o.inputs)+len(o.shapes)+len(o.dims) == 0 {
				return usagef("bind needs --input NAME=VALUE, --shape NAME=SIZES or --dim SYMBOL=SIZE, and -o FILE")
			}
			r, err := e.bind(o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			fmt.Fprintf(e.stdout, "%s: %d nodes became %d, %d If decided\n", r.Model, r.Before, r.Nodes, r.Branches)
			return nil
		},
	}
	c.Flags().StringArrayVar(&o.inputs, "input", nil, "NAME=NUMBER or NAME=FILE.npy: the input becomes this constant; may be repeated")
	c.Flags().StringArrayVar(&o.shapes, "shape", nil, "NAME=SIZE,SIZE...: the input has this shape; may be repeated")
	c.Flags().StringArrayVar(&o.dims, "dim", nil, "SYMBOL=SIZE: the open dimension gets this size; may be repeated")
	c.Flags().StringVarP(&o.out, "output", "o", "", "file to write")
	f.addJSON(c)
	return c
}

func (e *env) bind(o bindOptions) (*bindResult, error) {
	m, err := e.openModel(o.model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if same, _ := sameFile(o.model, o.out); same {
		return nil, fmt.Errorf("bind: %s would be replaced: name another file with -o", o.model)
	}
	g := m.loaded.Clone()
	r := &bindResult{Model: o.out, Before: len(g.Nodes())}
	for _, arg := range o.inputs {
		if err := bindInput(g, arg); err != nil {
			return nil, fmt.Errorf("bind: %s: %w", o.model, err)
		}
	}
	sizes, err := bindSizes(g, o.dims)
	for _, arg := range o.shapes {
		if err == nil {
			err = bindShape(g, arg, sizes)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bind: %s: %w", o.model, err)
	}
	if errs := graph.Bind(g, sizes); len(errs) > 0 {
		return nil, fmt.Errorf("bind: %s: %w", o.model, errs[0])
	}
	log, err := passes.Run(g, []passes.Pass{passes.ConstantNodes, passes.FoldConstants, passes.Branches, passes.NoOps, passes.DeadCode, passes.SweepConstants})
	if err != nil {
		return nil, fmt.Errorf("bind: %s: %w", o.model, err)
	}
	graph.InferShapes(g)
	r.Nodes, r.Branches = len(g.Nodes()), log.Count(passes.Branches.Name)
	if err := m.WithGraph(g).Save(o.out, onnx.SaveOptions{}); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	return r, nil
}

// openInput finds an input that is fed.
func openInput(g *graph.Graph, flag, name string) (*graph.Value, error) {
	v, known := g.Lookup(name)
	if !known || !g.IsInput(v) || g.Const(v) != nil {
		return nil, usagef("--%s %s: the model has no such input", flag, name)
	}
	return g.Value(v), nil
}

// bindInput makes an input of g the constant that name=value says.
func bindInput(g *graph.Graph, arg string) error {
	name, value, ok := strings.Cut(arg, "=")
	if !ok || name == "" || value == "" {
		return usagef("--input %q: not NAME=VALUE", arg)
	}
	val, err := openInput(g, "input", name)
	if err != nil {
		return err
	}
	t, err := bindValue(val, value)
	if err != nil {
		return fmt.Errorf("--input %s: %w", name, err)
	}
	fits := t.DType == val.DType && len(t.Shape) == len(val.Shape)
	for i := 0; fits && i < len(t.Shape); i++ {
		fits = !val.Shape[i].Known() || int(val.Shape[i].N) == t.Shape[i]
	}
	if !fits {
		return fmt.Errorf("--input %s: %s for %s", name, t.Type(), graph.FormatType(val.DType, val.Shape))
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

// bindValue reads an array, or a number for an input of one element.
func bindValue(val *graph.Value, text string) (*tensor.Tensor, error) {
	if strings.HasSuffix(strings.ToLower(text), ".npy") {
		b, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		return npy.Read(bytes.NewReader(b))
	}
	shape := make([]int, len(val.Shape))
	for i, d := range val.Shape {
		if d.Known() && d.N != 1 {
			return nil, fmt.Errorf("a number for %s: name an npy file", graph.FormatType(val.DType, val.Shape))
		}
		shape[i] = 1
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
			return nil, usagef("--dim %q: not SYMBOL=SIZE with a size of 1 or more", arg)
		}
		if !symbols[symbol] {
			return nil, usagef("--dim %s: no input has such a dimension", symbol)
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
		return usagef("--shape %s: %d sizes for %s", arg, len(list), graph.FormatType(val.DType, val.Shape))
	}
	shape := make(graph.Shape, len(list))
	for i, word := range list {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n < 1 {
			return usagef("--shape %q: not NAME=SIZE,SIZE... with sizes of 1 or more", arg)
		}
		shape[i] = graph.Dim{N: n}
		if val.Shape == nil {
			continue
		}
		d := val.Shape[i]
		if bound, ok := sizes[d.Symbol]; d.Known() && d.N != n || d.Symbol != "" && ok && bound != n {
			return usagef("--shape %s: size %d is %d already", arg, i, max(d.N, bound))
		}
		if d.Symbol != "" {
			sizes[d.Symbol] = n
		}
	}
	val.Shape = shape
	return nil
}
