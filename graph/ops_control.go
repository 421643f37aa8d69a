package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var controlOps = []OpSpec{
	{Name: "If", Doc: "one of two subgraphs", Since: 1, Kind: KindControl, MinIn: 1, In: []Socket{SocketFloat}, Infer: inferIf},
	{Name: "Loop", Doc: "a subgraph repeated", Since: 1, Kind: KindControl,
		In: []Socket{SocketIndex, SocketFloat, SocketData}, Infer: inferLoop},
	{Name: "Scan", Doc: "a subgraph over slices of tensors", Since: 8, Kind: KindControl, Infer: inferScan},
}

func (n *Node) body(name string) (*Graph, error) {
	if a := n.Attr(name); a != nil && a.G != nil {
		return a.G, nil
	}
	return nil, fmt.Errorf("attribute %s is missing", name)
}

// inferIf: where the condition is known, only the branch taken counts.
func inferIf(c *InferCtx) error {
	if c.sub == nil {
		return nil
	}
	branches := []string{"then_branch", "else_branch"}
	if cond, ok := c.Elems(0); ok && len(cond) == 1 && cond[0].Known {
		branches = branches[:1]
		if cond[0].N == 0 {
			branches[0] = "else_branch"
		}
	}
	for k, name := range branches {
		body, err := c.Node.body(name)
		if err != nil {
			return err
		}
		out, err := c.sub(body, nil)
		if err != nil {
			return err
		}
		if len(out) != c.NumOut() {
			return fmt.Errorf("%s has %d outputs, not %d", name, len(out), c.NumOut())
		}
		for i, o := range out {
			if k > 0 {
				o = either(c.out[i], o)
			}
			c.SetOut(i, o.DType, o.Shape)
		}
	}
	return nil
}

// either keeps what two alternatives have in common.
func either(a, b InferOutput) InferOutput {
	o := InferOutput{}
	if a.DType == b.DType {
		o.DType = a.DType
	}
	if a.Shape == nil || b.Shape == nil || len(a.Shape) != len(b.Shape) {
		return o
	}
	o.Shape = unknownShape(len(a.Shape))
	for i := range o.Shape {
		if a.Shape[i] == b.Shape[i] {
			o.Shape[i] = a.Shape[i]
		}
	}
	return o
}

// inferLoop: carried values may change their shape from one iteration to the next, so only their element type is certain.
func inferLoop(c *InferCtx) error {
	if c.sub == nil {
		return nil
	}
	body, err := c.Node.body("body")
	if err != nil {
		return err
	}
	in := []InferInput{{Present: true, DType: tensor.Int64, Shape: Shape{}}, {Present: true, DType: tensor.Bool, Shape: Shape{}}}
	for i := 2; i < c.NumIn(); i++ {
		in = append(in, InferInput{Present: true, DType: c.DType(i)})
	}
	out, err := c.sub(body, in)
	if err != nil {
		return err
	}
	carried := len(in) - 2
	if len(out) != c.NumOut()+1 || carried > c.NumOut() {
		return fmt.Errorf("body has %d outputs for %d of the loop", len(out), c.NumOut())
	}
	for i, o := range out[1:] {
		if i >= carried {
			if o.Shape != nil {
				o.Shape = append(Shape{unknownDim}, o.Shape...)
			}
		} else if first := c.Shape(2 + i); first != nil {
			o.Shape = either(InferOutput{Shape: first}, o).Shape
		} else {
			o.Shape = nil
		}
		c.SetOut(i, o.DType, o.Shape)
	}
	return nil
}

// inferScan: state variables keep their type; each scan input gives the body one slice, each scan output collects one.
func inferScan(c *InferCtx) error {
	n := c.Node
	if c.sub == nil {
		return nil
	}
	if c.Opset > 0 && c.Opset < 9 {
		return inferBatchedScan(c)
	}
	body, err := n.body("body")
	if err != nil {
		return err
	}
	scans := n.AttrInt("num_scan_inputs", 0)
	states := int64(c.NumIn()) - scans
	if scans < 1 || states < 0 || states > int64(c.NumOut()) {
		return fmt.Errorf("num_scan_inputs %d with %d inputs", scans, c.NumIn())
	}
	in := append([]InferInput(nil), c.in...)
	length := unknownDim
	for i := range in {
		in[i].Tensor, in[i].ints = nil, nil
		k := i - int(states)
		if k < 0 || in[i].Shape == nil {
			continue
		}
		axis, err := normAxis(int(at(n.AttrInts("scan_input_axes"), k)), len(in[i].Shape))
		if err != nil {
			return err
		}
		length, _ = mergeDim(length, in[i].Shape[axis])
		in[i].Shape = reducedShape(in[i].Shape, []int{axis}, false)
	}
	out, err := c.sub(body, in)
	if err != nil {
		return err
	}
	if len(out) != c.NumOut() {
		return fmt.Errorf("body has %d outputs for %d", len(out), c.NumOut())
	}
	for i, o := range out {
		k := i - int(states)
		if k >= 0 && o.Shape != nil {
			axis, err := normAxis(int(at(n.AttrInts("scan_output_axes"), k)), len(o.Shape)+1)
			if err != nil {
				return err
			}
			o.Shape = append(append(append(Shape{}, o.Shape[:axis]...), length), o.Shape[axis:]...)
		}
		c.SetOut(i, o.DType, o.Shape)
	}
	return nil
}

// inferBatchedScan is the form of opset 8: behind the lengths of the sequences every input has a batch axis, of which the body sees
// one entry, and scan inputs have the axis of the sequence as their second.
func inferBatchedScan(c *InferCtx) error {
	body, err := c.Node.body("body")
	if err != nil {
		return err
	}
	states := c.NumIn() - 1 - int(c.Node.AttrInt("num_scan_inputs", 0))
	if states < 0 || states >= c.NumIn()-1 {
		return fmt.Errorf("num_scan_inputs %d with %d inputs", c.Node.AttrInt("num_scan_inputs", 0), c.NumIn())
	}
	in := append([]InferInput(nil), c.in[1:]...)
	lead := Shape{unknownDim, unknownDim} // batch and sequence
	for i := range in {
		in[i].Tensor, in[i].ints = nil, nil
		axes := 1
		if i >= states {
			axes = 2
		}
		if s := in[i].Shape; s != nil {
			if len(s) < axes {
				return fmt.Errorf("input %d, %s, has no batch or sequence axis", 1+i, s)
			}
			for k := range axes {
				lead[k], _ = mergeDim(lead[k], s[k])
			}
			in[i].Shape = s[axes:]
		}
	}
	out, err := c.sub(body, in)
	if err != nil {
		return err
	}
	if len(out) != c.NumOut() {
		return fmt.Errorf("body has %d outputs for %d", len(out), c.NumOut())
	}
	for i, o := range out {
		axes := 1
		if i >= states {
			axes = 2
		}
		if o.Shape != nil {
			o.Shape = append(append(Shape{}, lead[:axes]...), o.Shape...)
		}
		c.SetOut(i, o.DType, o.Shape)
	}
	return nil
}

// at is list[i], 0 beyond its end.
func at(list []int64, i int) int64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}
