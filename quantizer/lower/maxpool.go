package lower

import "fmt"

// MaxPool takes the largest integer of every window, or of the whole plane. Padding does not take part; a window without input
// gives the smallest integer of the encoding. The geometry is that of the node.
type MaxPool struct {
	Global bool
	// Lowest is the result of a window without input.
	Lowest int32
}

// Name implements Op.
func (o *MaxPool) Name() string {
	if o.Global {
		return "GlobalMaxPool"
	}
	return "MaxPool"
}

func (o *MaxPool) describe() string { return fmt.Sprintf("from %d", o.Lowest) }

var maxPoolFamily = family{name: "max pool", passes: true, emit: emitMaxPool, ops: []string{"MaxPool", "GlobalMaxPool"}}

func emitMaxPool(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	for i, v := range n.Outputs {
		if i > 0 && v >= 0 && (len(c.g.Uses(v)) > 0 || c.g.IsOutput(v)) {
			return c.fail(n.ID, "indices of integers are not supported")
		}
	}
	return c.emitPassing(u, func(e Encoding, data TensorID, outs []TensorID) (Op, []TensorID, error) {
		return &MaxPool{Global: n.Op == "GlobalMaxPool", Lowest: e.QMin}, []TensorID{data}, nil
	})
}
