package espdl

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"qwb/export"
)

// The rules, in the order of Format.Rules.
const (
	tensorRule   = "tensor"
	inputRule    = "input"
	kindRule     = "quant-type"
	exponentRule = "exponents"
	shiftRule    = "shift"
	biasRule     = "bias"
	tableRule    = "table"
	fusionRule   = "activation"
	channelRule  = "per-channel"
)

func rules() []export.Rule {
	return []export.Rule{
		{Name: tensorRule, Doc: "every constant has a type, a shape and as many elements as it says, padded to 16 bytes",
			Fix: "write the elements little endian, with zeros to a multiple of 16 bytes"},
		{Name: inputRule, Doc: "every input of a node is an input of the model, a constant or the output of a node before it, and every output " +
			"has a type and a shape", Fix: "list nodes in the order of execution and every tensor once"},
		{Name: kindRule, Doc: "quant_type says what the node reads: S8 and S16 integers of 8 and 16 bits, F32 floats",
			Fix: "quantize the input, or give the node the quant_type of its integers"},
		{Name: exponentRule, Doc: "quantized tensors have one exponent, weights one or one per output channel", Fix: "write log2 of the scale"},
		{Name: shiftRule, Doc: "the sums of Conv, Gemm, MatMul and Mul are shifted right: output exponent >= the sum of the factors'",
			Fix: "give the output a larger scale"},
		{Name: biasRule, Doc: "a bias is int32 (int64 where activations have 16 bits), has the sums' exponents and fits into the bits that " +
			"the chip has", Fix: "give weights or input a larger scale"},
		{Name: tableRule, Doc: "a table has 256 entries, of int16 one every power of two codes and one at the end, and the exponent " +
			"of the output", Fix: "write one entry for every code from the lowest up"},
		{Name: fusionRule, Doc: "Conv, Gemm and MatMul say Linear or Relu as their activation",
			Fix: "write other limits as a Clip with a table behind the node"},
		{Name: channelRule, Doc: "weights have scales by channel on the ESP32-P4 only", Fix: "quantize weights per tensor"},
	}
}

// doctor reads a file and applies the rules of ESP-DL for a chip.
func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	raw, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	m, err := Read(raw)
	if err != nil {
		return nil, err
	}
	d := &checker{m: m, known: map[string]*Value{}, constants: map[string]*Tensor{}, biasBits: 64, channels: true}
	if t := in.Target; t != nil && t.Arithmetic != nil {
		if d.channels = t.Defaults().Weight[0].Channel; t.Arithmetic.Bias != 0 {
			d.biasBits = t.Arithmetic.Bias
		}
	}
	d.check()
	return d.findings, nil
}

type checker struct {
	m         *Model
	known     map[string]*Value // of tensors that exist by now
	constants map[string]*Tensor
	biasBits  int
	channels  bool
	findings  []export.Finding
}

func (d *checker) add(rule, node, format string, args ...any) {
	d.findings = append(d.findings, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
}

func (d *checker) check() {
	for i := range d.m.Initializers {
		t := &d.m.Initializers[i]
		d.constants[t.Name] = t
		size, n := elementSize[t.Type], t.count()
		if size == 0 || n < 0 || int64(len(t.Raw)) != (n*int64(size)+15)/16*16 {
			d.add(tensorRule, t.Name, "type %d, shape %v, %d bytes", t.Type, t.Shape, len(t.Raw))
		}
	}
	values := map[string]*Value{}
	for i := range d.m.Values {
		values[d.m.Values[i].Name] = &d.m.Values[i]
	}
	for i := range d.m.Inputs {
		v := &d.m.Inputs[i]
		d.known[v.Name] = v
		d.exponents(v)
	}
	for i := range d.m.Nodes {
		n := &d.m.Nodes[i]
		for _, name := range n.Inputs {
			if name != "" && d.known[name] == nil && d.constants[name] == nil {
				d.add(inputRule, n.Name, "nothing before it makes %q", name)
			}
		}
		for _, name := range n.Outputs {
			if values[name] == nil {
				d.add(inputRule, n.Name, "its output %q has no type", name)
				values[name] = &Value{Name: name}
			}
			d.known[name] = values[name]
			d.exponents(values[name])
		}
		d.node(n)
	}
	for _, v := range d.m.Outputs {
		if d.known[v.Name] == nil {
			d.add(inputRule, v.Name, "no node makes this output of the model")
		}
	}
}

func quantized(typ int) bool { return typ == int8Type || typ == int16Type }

func (d *checker) exponents(v *Value) {
	if quantized(v.Type) && len(v.Exponents) != 1 {
		d.add(exponentRule, v.Name, "%d exponents", len(v.Exponents))
	}
}

// text and number are attributes of a node.
func (n *Node) text(name string) string {
	for _, a := range n.Attrs {
		if s, ok := a.Value.(string); ok && a.Name == name {
			return s
		}
	}
	return ""
}

// factor is the type and the exponents of input i, which may be a constant.
func (d *checker) factor(n *Node, i int) (typ int, exponents []int64) {
	if i >= len(n.Inputs) {
		return 0, nil
	}
	if v := d.known[n.Inputs[i]]; v != nil {
		return v.Type, v.Exponents
	}
	if t := d.constants[n.Inputs[i]]; t != nil {
		return t.Type, t.Exponents
	}
	return 0, nil
}

func (d *checker) node(n *Node) {
	x, xe := d.factor(n, 0)
	switch kind := n.text("quant_type"); {
	case n.Op == "QuantizeLinear": // says what it writes
	case kind == "S8" && x != int8Type, kind == "S16" && x != int16Type, kind == "F32" && quantized(x), kind != "S8" && kind != "S16" &&
		kind != "F32":
		d.add(kindRule, n.Name, "quant_type %q, and input 0 has elements of type %d", kind, x)
	}
	var out *Value
	if len(n.Outputs) > 0 {
		out = d.known[n.Outputs[0]]
	}
	if lut := n.text("lut"); lut != "" && out != nil {
		d.table(n, d.constants[lut], out)
	}
	sums := n.Op == "Conv" || n.Op == "Gemm" || n.Op == "MatMul"
	if !sums && n.Op != "Mul" || !quantized(x) || out == nil || len(out.Exponents) != 1 || len(xe) != 1 {
		return
	}
	_, we := d.factor(n, 1)
	if a := n.text("activation"); sums && a != "Linear" && a != "Relu" {
		d.add(fusionRule, n.Name, "activation %q", a)
	}
	if t := d.constants[n.Inputs[min(1, len(n.Inputs)-1)]]; sums && t != nil && len(we) != 1 {
		outs := int64(-1)
		for _, size := range t.Shape { // HWCN, of depthwise convolutions HWNC
			if size == int64(len(we)) {
				outs = size
			}
		}
		if outs < 0 {
			d.add(exponentRule, n.Name, "%d exponents of weights of shape %v", len(we), t.Shape)
		}
		if !d.channels {
			d.add(channelRule, n.Name, "weights with %d exponents", len(we))
		}
	}
	for _, e := range we {
		if out.Exponents[0] < xe[0]+e {
			d.add(shiftRule, n.Name, "exponents %d and %d, of the output %d", xe[0], e, out.Exponents[0])
			break
		}
	}
	if sums && len(n.Inputs) > 2 {
		d.bias(n, x, xe[0], we)
	}
}

func (d *checker) bias(n *Node, x int, xe int64, we []int64) {
	t := d.constants[n.Inputs[2]]
	want, size := int32Type, 4
	if x == int16Type {
		want, size = int64Type, 8
	}
	switch {
	case t == nil || t.Type != want:
		d.add(biasRule, n.Name, "its bias is no constant of type %d", want)
		return
	case len(t.Exponents) != len(we) || slices.ContainsFunc(straight(len(we)), func(c int) bool { return t.Exponents[c] != xe+we[c] }):
		d.add(biasRule, n.Name, "bias exponents %v, of input and weights %d and %v", t.Exponents, xe, we)
	}
	for i := int64(0); i < t.count() && (i+1)*int64(size) <= int64(len(t.Raw)); i++ {
		q := int64(int32(binary.LittleEndian.Uint32(t.Raw[i*int64(size):])))
		if size == 8 {
			q = int64(binary.LittleEndian.Uint64(t.Raw[8*i:]))
		}
		if d.biasBits < 64 && (q < -1<<(d.biasBits-1) || q >= 1<<(d.biasBits-1)) {
			d.add(biasRule, n.Name, "bias %d of channel %d needs more than %d bits", q, i, d.biasBits)
			return
		}
	}
}

func (d *checker) table(n *Node, t *Tensor, out *Value) {
	if t == nil {
		d.add(tableRule, n.Name, "its table is not in the file")
		return
	}
	entries := t.count()
	ok := entries == 256
	if t.Type == int16Type {
		ok = entries > 1 && 65536%(entries-1) == 0
	}
	if !ok || t.Type != out.Type || !slices.Equal(t.Exponents, out.Exponents) {
		d.add(tableRule, n.Name, "%d entries of type %d with exponents %v for an output of type %d with %v", entries, t.Type, t.Exponents,
			out.Type, out.Exponents)
	}
}

// look says what a file is as a whole.
func look(_ context.Context, in *export.DoctorInput) (*export.AsWhole, error) {
	raw, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	m, err := Read(raw)
	if err != nil {
		return nil, err
	}
	w := &export.AsWhole{Exact: true}
	for _, kv := range m.Metadata {
		if kv[0] == "qwb.platform" {
			w.Platform = kv[1]
		}
	}
	for _, v := range slices.Concat(m.Inputs, m.Values) {
		if bits := 8 * elementSize[v.Type]; quantized(v.Type) && !slices.Contains(w.Bits, bits) {
			w.Bits = append(w.Bits, bits)
		}
	}
	w.Narrow = len(w.Bits) > 0
	return w, nil
}
