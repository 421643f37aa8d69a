package ncnn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// maxName is the longest name that ncnn reads.
const maxName = 255

// builder makes layers of nodes.
type builder struct {
	g      *graph.Graph // with the batch fixed to 1
	set    *tqc.Set
	net    net
	float  bool                       // no integers: the network that ncnn2int8 is given together with a table
	blobs  map[graph.ValueID]string   // where a value is; several values may be one blob
	taken  map[string]bool            // names of blobs
	named  map[string]bool            // names of layers
	units  map[graph.NodeID]*unit     // by the node that computes the result of a pattern
	inside map[graph.NodeID]bool      // other nodes of patterns, and activations that a layer has taken in
	layer  map[graph.ValueID]int      // the layer whose result a value is, as long as an activation may still be taken into it
	consts map[graph.ValueID][]string // blobs of constants, by what they look like
	// refused collects what ncnn has no form for; its outputs have blobs that nothing computes, so that the rest can be looked at.
	refused export.Refusals
}

// unit is a match of a pattern that is one layer.
type unit struct {
	family string
	match  *pattern.Match
}

// build makes a network. With float its layers do not quantize.
func build(in *export.Input, float bool) (*net, error) {
	g, err := single(in.Model.Graph)
	if err != nil {
		return nil, err
	}
	b := &builder{g: g, set: in.Set, float: float, blobs: map[graph.ValueID]string{}, taken: map[string]bool{}, named: map[string]bool{},
		units:  map[graph.NodeID]*unit{},
		inside: map[graph.NodeID]bool{}, layer: map[graph.ValueID]int{}, consts: map[graph.ValueID][]string{}}
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	b.patterns()
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			if err := b.input(v); err != nil {
				b.refused.Add(err)
				b.blobs[v] = b.blobName(g.Value(v).Name)
			}
		}
	}
	for _, id := range order {
		if err := b.node(id); err != nil {
			b.refused.Add(g.ErrorAt(stage, id, err))
			for _, v := range g.Node(id).Outputs {
				if v != graph.NoValue && b.blobs[v] == "" {
					b.blobs[v] = b.blobName(g.Value(v).Name)
				}
			}
		}
	}
	for _, v := range g.Outputs {
		if err := b.output(v); err != nil {
			b.refused.Add(err)
		}
	}
	if err := b.refused.Err(stage); err != nil {
		return nil, err
	}
	b.sweep()
	if !float {
		b.requantize()
	}
	b.keepOutputs()
	b.net.split()
	return &b.net, nil
}

const stage = "export ncnn"

// single is the graph with a batch of 1 where it had any size.
func single(g *graph.Graph) (*graph.Graph, error) {
	g = g.Clone()
	sizes := map[string]int64{}
	for _, v := range g.Inputs {
		s := g.Value(v).Shape
		if g.Const(v) != nil || len(s) == 0 || s[0].Known() {
			continue
		}
		if s[0].Symbol == "" {
			s = slices.Clone(s)
			s[0] = graph.Dim{N: 1}
			g.Value(v).Shape = s
			continue
		}
		sizes[s[0].Symbol] = 1
	}
	if errs := graph.Bind(g, sizes); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", stage, errs[0])
	}
	graph.InferShapes(g)
	return g, nil
}

// patterns finds what ncnn has one layer for.
func (b *builder) patterns() {
	for _, f := range pattern.Cover(b.g, pattern.Gelu, pattern.HardSwish, pattern.Mish, pattern.Swish) {
		if len(f.Nodes) < 2 || !b.plain(f) {
			continue
		}
		for _, id := range f.Nodes[:len(f.Nodes)-1] {
			b.inside[id] = true
		}
		b.units[f.Nodes[len(f.Nodes)-1]] = &unit{f.Family.Name, f.Match}
	}
}

// plain reports whether nothing else reads what is inside a match, and whether the layer computes this form.
func (b *builder) plain(f pattern.Found) bool {
	for _, id := range f.Nodes[:len(f.Nodes)-1] {
		for _, v := range b.g.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			if b.g.IsOutput(v) || slices.ContainsFunc(b.g.Uses(v), func(u graph.Use) bool { return !slices.Contains(f.Nodes, u.Node) }) {
				return false
			}
		}
	}
	return f.Family != pattern.Swish || f.Value("beta") == graph.NoValue
}

// dims are the sizes of a value as ncnn has them, the outermost first: without the batch.
func (b *builder) dims(v graph.ValueID) ([]int, error) {
	s, known := b.g.Value(v).Shape.Ints()
	name := b.g.Value(v).Name
	if !known {
		return nil, fmt.Errorf("the size of %q is not known: fix the sizes of the inputs (qwb bind) first", name)
	}
	if slices.Contains(s, 0) {
		return nil, fmt.Errorf("%q is %v: ncnn has no blobs without elements", name, s)
	}
	d := s
	if batched(s) {
		d = s[1:]
	}
	if len(d) == 0 {
		d = []int{1}
	}
	if len(d) > 4 {
		return nil, fmt.Errorf("%q is %v: ncnn holds up to four axes besides a batch of 1", name, s)
	}
	return d, nil
}

// sample is dims of what a layer takes for one sample of so many axes, the channels first.
func (b *builder) sample(v graph.ValueID, axes ...int) ([]int, error) {
	s, _ := b.g.Value(v).Shape.Ints()
	d, err := b.dims(v)
	if err == nil && (!batched(s) || !slices.Contains(axes, len(d))) {
		err = fmt.Errorf("%q is %v: ncnn computes this for a batch of 1 with %v axes behind it", b.g.Value(v).Name, s, axes)
	}
	return d, err
}

func batched(s []int) bool { return len(s) > 1 && s[0] == 1 }

// axis is an axis of a value as ncnn counts it.
func (b *builder) axis(v graph.ValueID, axis int) (int, error) {
	s, known := b.g.Value(v).Shape.Ints()
	if !known {
		return 0, errors.New("the rank is not known")
	}
	a, ok := graph.Axis(axis, len(s))
	if batched(s) {
		a--
	}
	if !ok || a < 0 {
		return 0, fmt.Errorf("it works along the batch, which ncnn does not have")
	}
	return a, nil
}

// fresh makes a name that ncnn reads, without spaces and not too long, and that is not among those taken yet.
func fresh(taken map[string]bool, base string) string {
	base = strings.Map(func(r rune) rune {
		if r <= ' ' || r == '=' || r == 0x7f {
			return '_'
		}
		return r
	}, base)
	if len(base) > maxName-20 { // room for what is added to it
		base = strings.ToValidUTF8(base[:maxName-20], "")
	}
	if base == "" {
		base = "_"
	}
	name := base
	for i := 1; taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	taken[name] = true
	return name
}

func (b *builder) blobName(base string) string  { return fresh(b.taken, base) }
func (b *builder) layerName(base string) string { return fresh(b.named, base) }

// input writes an input of the network, with its size as a hint.
func (b *builder) input(v graph.ValueID) error {
	val := b.g.Value(v)
	if val.DType != tensor.Float32 && !b.fedAsFloat(v) {
		return fmt.Errorf("%s: input %q is %s: ncnn's networks are fed with float32%s", stage, val.Name, val.DType, export.ToFloat32(val.DType))
	}
	d, err := b.dims(v)
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	b.blobs[v] = b.blobName(val.Name)
	b.net.layers = append(b.net.layers, layer{typ: "Input", name: b.layerName("input_" + val.Name), tops: []string{b.blobs[v]},
		params: sized(d)})
	return nil
}

// fedAsFloat reports whether an input of integers is only ever turned into float32: the file is fed with the same numbers in float32.
func (b *builder) fedAsFloat(v graph.ValueID) bool {
	switch b.g.Value(v).DType {
	case tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Bool:
	default:
		return false
	}
	return !b.g.IsOutput(v) && !slices.ContainsFunc(b.g.Uses(v), func(u graph.Use) bool {
		n := b.g.Node(u.Node)
		return n.Op != "Cast" || b.g.Value(n.Outputs[0]).DType != tensor.Float32
	})
}

// sized are the parameters w, h, d, c of Input, MemoryData and Reshape.
func sized(d []int) []param {
	keys := [][]int{{0}, {1, 0}, {2, 1, 0}, {2, 11, 1, 0}}[len(d)-1]
	var list []param
	for i := len(d) - 1; i >= 0; i-- {
		list = append(list, param{keys[i], d[i]})
	}
	return list
}

// output gives an output of the network its name, where it is another blob.
func (b *builder) output(v graph.ValueID) error {
	val := b.g.Value(v)
	blob, err := b.read(v)
	if err != nil {
		return fmt.Errorf("%s: output %q: %w", stage, val.Name, err)
	}
	if blob != clean(val.Name) {
		b.net.layers = append(b.net.layers, layer{typ: "Noop", name: b.layerName("output_" + val.Name), bottoms: []string{blob},
			tops: []string{b.blobName(val.Name)}})
	}
	return nil
}

// keepOutputs gives outputs that layers read as well a blob that nothing reads: ncnn gives the memory of a blob away once it was read, and
// an extractor that is then asked for it crashes.
func (b *builder) keepOutputs() {
	for _, v := range b.g.Outputs {
		name := clean(b.g.Value(v).Name)
		read := func(l layer) bool { return slices.Contains(l.bottoms, name) }
		if !slices.ContainsFunc(b.net.layers, read) {
			continue
		}
		inner := b.blobName(name + "_inner")
		for i := range b.net.layers {
			for _, list := range [][]string{b.net.layers[i].bottoms, b.net.layers[i].tops} {
				for k := range list {
					if list[k] == name {
						list[k] = inner
					}
				}
			}
		}
		b.net.layers = append(b.net.layers, layer{typ: "Noop", name: b.layerName("output_" + name), bottoms: []string{inner},
			tops: []string{name}})
	}
}

// clean is a name as it is where nothing else has it.
func clean(s string) string { return fresh(map[string]bool{}, s) }

// read is the blob of a value; a constant becomes one.
func (b *builder) read(v graph.ValueID) (string, error) {
	if blob, ok := b.blobs[v]; ok {
		return blob, nil
	}
	if b.g.Const(v) == nil {
		return "", fmt.Errorf("%q is computed by what ncnn has no layer for", b.g.Value(v).Name)
	}
	d, err := b.dims(v)
	if err != nil {
		return "", err
	}
	return b.constant(v, d)
}

// constant is the blob of a constant that looks like d.
func (b *builder) constant(v graph.ValueID, d []int) (string, error) {
	t := b.g.Const(v)
	if t.DType != tensor.Float32 {
		return "", fmt.Errorf("constant %q is %s: ncnn computes with float32", b.g.Value(v).Name, t.DType)
	}
	key := fmt.Sprint(d)
	for i := 0; i+1 < len(b.consts[v]); i += 2 {
		if b.consts[v][i] == key {
			return b.consts[v][i+1], nil
		}
	}
	name := b.blobName(b.g.Value(v).Name)
	b.net.layers = append(b.net.layers, layer{typ: "MemoryData", name: b.layerName("data_" + b.g.Value(v).Name), tops: []string{name},
		params:  sized(d),
		weights: []weight{{floats: t.ToRowMajor().F32()}}})
	b.consts[v] = append(b.consts[v], key, name)
	return name, nil
}

// add writes a layer that computes a value of others.
func (b *builder) add(typ string, id graph.NodeID, in []string, out graph.ValueID, params ...param) *layer {
	name := b.g.Node(id).Name
	if name == "" {
		name = b.g.Value(out).Name
	}
	b.blobs[out] = b.blobName(b.g.Value(out).Name)
	b.net.layers = append(b.net.layers, layer{typ: typ, name: b.layerName(name), bottoms: in, tops: []string{b.blobs[out]}, params: params,
		of: b.g.Node(id).Name})
	return &b.net.layers[len(b.net.layers)-1]
}

// step writes a layer behind a blob that no value stands for.
func (b *builder) step(typ, name, in string, params ...param) string {
	out := b.blobName(name)
	b.net.layers = append(b.net.layers, layer{typ: typ, name: b.layerName(name), bottoms: []string{in}, tops: []string{out}, params: params})
	return out
}

// reshaped is a blob with other sizes.
func (b *builder) reshaped(name, in string, d []int) string {
	return b.step("Reshape", name+"_reshape", in, sized(d)...)
}

// node writes the layers of a node.
func (b *builder) node(id graph.NodeID) error {
	n := b.g.Node(id)
	if u := b.units[id]; u != nil {
		return b.unit(id, u)
	}
	if b.inside[id] || b.set.Domains[id] == tqc.DomainSOI || b.unread(id) {
		return nil
	}
	write, ok := writers[n.Op]
	if !ok || !n.IsONNX() {
		return errors.New("ncnn has no layer for it that this exporter knows")
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue && slices.Contains(b.g.Value(v).Shape, graph.Dim{N: 0}) {
			return fmt.Errorf("%q is %v: ncnn has no blobs without elements", b.g.Value(v).Name, b.g.Value(v).Shape)
		}
	}
	return write(b, id, n)
}

// unread reports whether only sizes are made of what a node computes.
func (b *builder) unread(id graph.NodeID) bool {
	for _, v := range b.g.Node(id).Outputs {
		if v == graph.NoValue {
			continue
		}
		if t := b.g.Value(v).DType; t == tensor.Float32 || t == tensor.Undefined {
			return false
		}
	}
	return true
}

// sweep drops what nobody reads (constants that only sizes were made of).
func (b *builder) sweep() {
	keep := map[string]bool{}
	for _, v := range b.g.Outputs {
		keep[clean(b.g.Value(v).Name)] = true
	}
	var list []layer
	for _, l := range slices.Backward(b.net.layers) {
		if l.typ != "Input" && !slices.ContainsFunc(l.tops, func(t string) bool { return keep[t] }) {
			continue
		}
		for _, x := range l.bottoms {
			keep[x] = true
		}
		list = append(list, l)
	}
	slices.Reverse(list)
	b.net.layers = list
}

// integers reports whether a node computes on integers in this file.
func (b *builder) integers(id graph.NodeID) bool {
	if b.float || b.set.Domains[id] != tqc.DomainInt {
		return false
	}
	slot := b.set.Input(id, graph.DataInput)
	return slot != tqc.NoSlot && b.set.Slot(slot).State().Quantizes()
}

// quantized reads scales and integers of a weighted node, for rows of output channels: 1 over the scale of the input, 1 over those of the
// weights, and the integers as the constant has them.
func (b *builder) quantized(id graph.NodeID) (x float32, w []float32, codes []int8, err error) {
	for i := range 2 {
		slot := b.set.Input(id, i)
		c := &b.set.Slot(slot).Config
		if !b.set.Slot(slot).State().Quantizes() {
			return 0, nil, nil, fmt.Errorf("input %d is not quantized: ncnn's int8 layers take integers from both sides", i)
		}
		if s, err := tqc.SchemeOf(*c); err != nil || c.Bits != 8 || s.Unsigned || s.Asymmetric || s.Dynamic || s.Group > 0 ||
			c.Type != qmath.Integers || c.QMin < -127 {
			return 0, nil, nil, fmt.Errorf("input %d is %s in %d..%d: ncnn has int8-sym-tensor, weights int8-sym-channel, in -127..127", i, s,
				c.QMin, c.QMax)
		}
	}
	inverse := func(s float32) float32 { return 1 / s }
	x = inverse(b.set.Params(b.set.Input(id, 0)).Scale[0])
	slot := b.set.Input(id, 1)
	p, config := b.set.Params(slot), b.set.Slot(slot).Config
	for _, s := range p.Scale {
		w = append(w, inverse(s))
	}
	q, err := tqc.QuantizeTo(tensor.Int8, b.g.Const(b.g.Node(id).Inputs[1]), &config, p)
	if err != nil {
		return 0, nil, nil, err
	}
	return x, w, tensor.Of[int8](q.ToRowMajor()), nil
}

// requantize lets convolutions hand on integers where only convolutions on integers read them, all by one scale: 100 is added to their
// int8_scale_term, and the scale of the readers follows their weights (NetQuantize::fuse_requantize in ncnn2int8.cpp).
func (b *builder) requantize() {
	outputs := map[string]bool{}
	for _, v := range b.g.Outputs {
		outputs[b.blobs[v]] = true
	}
	for i := range b.net.layers {
		l := &b.net.layers[i]
		if !convolves(l) || outputs[l.tops[0]] {
			continue
		}
		var scale float32
		all := true
		for k := range b.net.layers {
			r := &b.net.layers[k]
			if !slices.Contains(r.bottoms, l.tops[0]) {
				continue
			}
			if !convolves(r) || scale != 0 && r.scale != scale {
				all = false
				break
			}
			scale = r.scale
		}
		if all && scale != 0 {
			l.set(keyInt8, l.integer(keyInt8, 0)+100)
			l.weights = append(l.weights, weight{floats: []float32{scale}})
		}
	}
}

func convolves(l *layer) bool {
	return l.scale != 0 && (l.typ == "Convolution" || l.typ == "ConvolutionDepthWise")
}
