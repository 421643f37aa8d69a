package ncnn

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// back reads a network that was written, its weights too, and says what it holds of the plan: layers by the names of nodes. Weights come
// back into the layout of the model, and scales are compared as their reciprocals.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	r, err := newRecoverer(in, wants, lacks)
	if err != nil {
		return nil, err
	}
	return r.read(out, out.Name())
}

func newRecoverer(in *export.Input, wants wanting, lacks func(*export.Item) string) (*recoverer, error) {
	fixed, err := single(in.Model.Graph)
	r := &recoverer{g: in.Model.Graph, fixed: fixed, set: in.Set, said: map[graph.NodeID]bool{}}
	r.held = &export.Recovered{Wants: r.withLayers(wants), Lacks: lacks}
	return r, err
}

// read reads the network of a name.
func (r *recoverer) read(out *export.Output, name string) (*export.Readback, error) {
	var found []export.Finding
	report := reporter(&found)
	text, err := fs.ReadFile(out.FS(), name)
	if err != nil {
		return nil, err
	}
	bin, err := fs.ReadFile(out.FS(), binName(name))
	if err != nil {
		return nil, err
	}
	n, err := parse(text, report)
	if err != nil {
		return nil, err
	}
	if n.load(bin, report); len(found) == 0 {
		n.handed(report)
	}
	if len(found) > 0 {
		return nil, fmt.Errorf("%s", found[0])
	}
	r.layers = map[string]*layer{}
	for i := range n.layers {
		r.layers[n.layers[i].name] = &n.layers[i]
	}
	for _, id := range r.g.Nodes() {
		if err := r.node(r.g.Node(id)); err != nil {
			return nil, r.g.ErrorAt(stage, id, err)
		}
		r.parameters(id)
	}
	r.wires = r.wiring(n.layers)
	r.wires.each(func(at string, _, file func() []string) { r.held.Add(&export.Item{At: at, Kind: reads, Texts: file()}) })
	return &export.Readback{Held: r.held}, nil
}

// wants is what a set holds, but for the ends of codes between operators: ncnn has -127 to 127 everywhere, and activations in float.
func wants(in *export.Input, yield func(*export.Item) error) error {
	return export.OfSet(in, func(it *export.Item) error {
		if it.Kind == export.Grid && len(it.Ints) > 4 {
			it.Ints = it.Ints[:4]
		}
		return yield(it)
	})
}

// lacks says what ncnn has in another form.
func lacks(it *export.Item) string {
	if it.Kind == export.Numbers {
		return "constants that are parameters of a layer, or are computed into others"
	}
	return ""
}

type recoverer struct {
	g      *graph.Graph
	fixed  *graph.Graph          // with a batch of 1
	said   map[graph.NodeID]bool // nodes whose layer was read
	set    *tqc.Set              // is asked how many scales weights have
	layers map[string]*layer
	held   *export.Recovered
	wires  *wiring
	table  map[string][]float32 // factors beside a network of floats, by the first word of their line; nil: the network has them
}

// layer is that of a node, nil where there is none of its name.
func (r *recoverer) layer(n *graph.Node) *layer {
	name := n.Name
	if name == "" {
		name = r.g.Value(n.Outputs[0]).Name
	}
	return r.layers[clean(name)]
}

func (r *recoverer) node(n *graph.Node) error {
	l := r.layer(n)
	if l == nil || len(l.weights) == 0 { // else what others read of its constants is not what it reads
		for i, v := range n.Inputs {
			if v == graph.NoValue || r.g.Const(v) == nil {
				continue
			}
			if l := r.layers[clean("data_"+r.g.Value(v).Name)]; l != nil && l.typ == "MemoryData" {
				r.numbers(n, i, l.weights[0].floats)
			}
		}
		return r.limits(n)
	}
	switch l.typ {
	case "BatchNorm":
		for i, input := range []int{1, 3, 4, 2} { // slope, mean, variance, bias
			r.numbers(n, input, l.weights[i].floats)
		}
	case "LayerNorm":
		r.numbers(n, 1, l.weights[0].floats)
		if n.Input(2) != graph.NoValue {
			r.numbers(n, 2, l.weights[1].floats)
		}
	case "PReLU":
		r.numbers(n, 1, l.weights[0].floats)
	case "Convolution", "ConvolutionDepthWise", "Convolution1D", "Deconvolution", "DeconvolutionDepthWise", "InnerProduct":
		return r.sum(n, l)
	}
	return r.limits(n)
}

func (r *recoverer) numbers(n *graph.Node, i int, list []float32) {
	r.held.Add(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: list})
}

// limits adds those of a Clip: of a layer of its own, or of the one that has taken it in.
func (r *recoverer) limits(n *graph.Node) error {
	if n.Op != "Clip" {
		return nil
	}
	var bounds []float32
	if l := r.layer(n); l != nil && l.typ == "Clip" {
		for key := range 2 {
			v, _ := l.get(key)
			x, ok := v.(float32)
			if !ok {
				return nil
			}
			bounds = append(bounds, x)
		}
	} else if p := r.g.Producer(n.Inputs[0]); p != graph.NoNode {
		if l = r.layer(r.g.Node(p)); l == nil || l.integer(keyActivation, 0) != 3 {
			return nil
		}
		v, _ := l.get(keyActivation + 1)
		bounds, _ = v.([]float32)
	}
	for i := range bounds {
		if v := n.Input(i + 1); v != graph.NoValue && r.g.Const(v) != nil {
			r.held.Add(&export.Item{At: export.SlotName(n.Name, i+1, 0), Kind: export.Numbers, Floats: bounds[i : i+1],
				Stored: func(x float32) float32 { return max(-math.MaxFloat32, min(math.MaxFloat32, x)) }})
		}
	}
	return nil
}

// sum adds what a layer says that sums products.
func (r *recoverer) sum(n *graph.Node, l *layer) error {
	outputs, at := l.integer(0, 0), 1
	if l.integer(keyBias(l), 0) != 0 {
		r.numbers(n, graph.BiasInput, l.weights[1].floats)
		at = 2
	}
	back := func(k int) int { return k } // where element k of the file stands in the model
	t := r.g.Const(n.Inputs[graph.WeightInput])
	if t == nil {
		return fmt.Errorf("its weights are computed")
	}
	size := l.weights[0].len()
	if size != t.Len() || outputs < 1 {
		return fmt.Errorf("%d weights for %v of the model", size, t.Shape)
	}
	gemm := n.Gemm()
	inputs := size / outputs
	switch {
	case l.typ == "InnerProduct" && !gemm.TransB:
		back = func(k int) int { return k%inputs*outputs + k/inputs }
	case n.Op == "ConvTranspose":
		group := l.integer(7, 1)
		in, rows, taps := t.Shape[0]/group, t.Shape[1], tensor.Count(t.Shape[2:])
		back = func(k int) int {
			tap, i, o, g := k%taps, k/taps%in, k/(taps*in)%rows, k/(taps*in*rows)
			return ((g*in+i)*rows+o)*taps + tap
		}
	}
	alpha := float32(1)
	if n.Op == "Gemm" {
		alpha = gemm.Alpha
	}
	if l.integer(keyInt8, 0) == 0 {
		list := make([]float32, size)
		for k, x := range l.weights[0].floats {
			list[back(k)] = x
		}
		r.held.Add(&export.Item{At: export.SlotName(n.Name, graph.WeightInput, 0), Kind: export.Numbers, Floats: list,
			Stored: func(x float32) float32 { return x * alpha }})
		if weights, ok := r.table[l.name+ofWeights]; ok {
			return r.grids(n, len(t.Shape), alpha, weights, r.table[l.name])
		}
		return nil
	}
	codes := make([]int32, size)
	for k, q := range l.weights[0].codes {
		codes[back(k)] = int32(q)
	}
	r.held.Add(&export.Item{At: export.SlotName(n.Name, graph.WeightInput, 0), Kind: export.Codes, Ints: codes})
	return r.grids(n, len(t.Shape), alpha, l.weights[at].floats, l.weights[at+1].floats)
}

// grids adds those of the weights, which have so many axes and are multiplied by alpha, and of the input of a layer, by their factors.
func (r *recoverer) grids(n *graph.Node, axes int, alpha float32, weights, input []float32) error {
	scales, err := r.scales(n, weights)
	if err != nil {
		return err
	}
	axis := int32(-1)
	if c := r.config(n); !c.Policy.Has(tqc.PerTensor) {
		a, _ := graph.OutAxis(n, axes)
		axis = int32(a)
	}
	at1 := export.SlotName(n.Name, graph.WeightInput, 0)
	r.held.Add(&export.Item{At: at1, Kind: export.Grid, Ints: []int32{int32(qmath.Integers), axis, 0}})
	r.held.Add(&export.Item{At: at1, Kind: export.Scales, Floats: scales, Stored: func(s float32) float32 { return 1 / s / alpha }})
	r.held.Add(&export.Item{At: at1, Kind: export.ZeroPoints, Ints: make([]int32, len(scales))})
	at0 := export.SlotName(n.Name, graph.DataInput, 0)
	r.held.Add(&export.Item{At: at0, Kind: export.Grid, Ints: []int32{int32(qmath.Integers), -1, 0, 0}})
	r.held.Add(&export.Item{At: at0, Kind: export.Scales, Floats: input, Stored: func(s float32) float32 { return 1 / s }})
	r.held.Add(&export.Item{At: at0, Kind: export.ZeroPoints, Ints: []int32{0}})
	return nil
}

func (r *recoverer) config(n *graph.Node) *tqc.Config {
	return &r.set.Slot(r.set.Input(n.ID, graph.WeightInput)).Config
}

// scales are those of weights, one where the plan has one: ncnn then has the same for every channel.
func (r *recoverer) scales(n *graph.Node, list []float32) ([]float32, error) {
	if r.config(n).Policy.Has(tqc.PerTensor) {
		if len(list) == 0 || slices.ContainsFunc(list, func(s float32) bool { return s != list[0] }) {
			return nil, fmt.Errorf("channels have several scales or none, and the plan has one")
		}
		list = list[:1]
	}
	return list, nil
}
