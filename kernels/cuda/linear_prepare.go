package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

// NewLinear chooses how to compute op on the device, loads the kernels and packs the constants. Where the device's MeasureTiles is set,
// tiles are chosen by Tune.
func (d *Device) NewLinear(op LinearOp) (*Linear, error) {
	if d.MeasureTiles {
		var err error
		if op, err = d.Tune(op); err != nil {
			return nil, err
		}
	}
	return d.newLinear(op)
}

// What one step may have: threads are numbered in 31 bits, with those that fill the last block, and matrices are an axis of the grid.
const (
	mostOutputs  = math.MaxInt32 - 255
	mostMatrices = 65535
)

func (d *Device) newLinear(op LinearOp) (*Linear, error) {
	l := &Linear{op: op, device: d, constants: &blob{}, moving: op.Weights == nil}
	g, err := l.layout()
	if err != nil {
		return nil, err
	}
	l.rows, l.channels = g.allRows, g.allChannels
	if l.rows == 0 || l.channels == 0 {
		l.method = "empty"
		return l, nil
	}
	if l.rows*l.channels > mostOutputs {
		return nil, fmt.Errorf("cuda: %d rows of %d channels are too many for one step", l.rows, l.channels)
	}
	if !g.conv && g.parts > mostMatrices {
		return nil, fmt.Errorf("cuda: %d products of matrices are too many for one step", g.parts)
	}
	method := op.Method
	if method == "" {
		method = g.method(&op)
	}
	if method == "product" {
		g = l.merge(g)
	}
	switch method {
	case "product":
		err = l.prepareProduct(g)
	case "depthwise":
		err = l.prepareDepthwise(g)
	case "direct":
		err = l.prepareDirect(g)
	default:
		err = fmt.Errorf("cuda: no method %q", method)
	}
	if err != nil {
		return nil, err
	}
	l.op.Weights = nil
	return l, nil
}

// layout is a LinearOp as rows, channels and parts.
type layout struct {
	shape                ref.ConvShape // of a convolution
	conv                 bool
	rows, channels       int // of a part
	allRows, allChannels int
	depth, taps          int // products of a sum: taps*depth
	parts                int
	left, right          []int // matrices of the factors of a part
	lefts, rights        int   // how many there are
	groups               int
	leftFactor           Factor
	table                []Part
	merged               int // groups of the operator that a part has, 1 if not said; their weights stand on a diagonal of zeros
}

// layout checks the shapes.
func (l *Linear) layout() (*layout, error) {
	op := &l.op
	for _, c := range []Codes{op.X, op.Y} {
		if !c.Type.IsCode() {
			return nil, fmt.Errorf("cuda: a product of numbers of type %s", c.Type)
		}
	}
	if len(op.Outputs) == 0 {
		return nil, fmt.Errorf("cuda: a step without outputs")
	}
	if op.Window != nil {
		return l.windows()
	}
	return l.matrices()
}

func (l *Linear) windows() (*layout, error) {
	op, s := &l.op, l.op.Window.Full()
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if n := s.C * (s.M / s.Group) * s.KD * s.KH * s.KW; len(op.Weights) != n {
		return nil, fmt.Errorf("cuda: %d weights for a window with %d", len(op.Weights), n)
	}
	g := &layout{shape: s, conv: true, rows: s.N * s.OutD * s.OutH * s.OutW, channels: s.M / s.Group, depth: s.C / s.Group,
		taps: s.KD * s.KH * s.KW, parts: s.Group, groups: s.Group, lefts: 1, rights: s.Group}
	g.allRows, g.allChannels = g.rows, s.M
	g.parted()
	return g, nil
}

func (l *Linear) matrices() (*layout, error) {
	op := &l.op
	a, b := op.Left, op.Right
	if a.Cols != b.Rows || a.Rows < 0 || a.Cols < 0 || b.Cols < 0 {
		return nil, fmt.Errorf("cuda: matrices of %dx%d and %dx%d cannot be multiplied", a.Rows, a.Cols, b.Rows, b.Cols)
	}
	if n := matricesIn(b.Stack) * b.Rows * b.Cols; op.Weights != nil && len(op.Weights) != n {
		return nil, fmt.Errorf("cuda: %d weights for matrices with %d", len(op.Weights), n)
	}
	if matricesIn(b.Stack) == 1 && a.ByCol == 1 && (a.ByRow == a.Cols || a.Rows == 1) && a.Cols > 0 { // one matrix of all rows
		a = Factor{Rows: matricesIn(a.Stack) * a.Rows, Cols: a.Cols, ByRow: a.Cols, ByCol: 1}
		b.Stack = nil
	}
	stack, err := broadcastStacks(a.Stack, b.Stack)
	if err != nil {
		return nil, err
	}
	g := &layout{rows: a.Rows, channels: b.Cols, depth: a.Cols, taps: 1, parts: matricesIn(stack), groups: 1, leftFactor: a,
		lefts: matricesIn(a.Stack), rights: matricesIn(b.Stack), left: broadcastMatrices(stack, a.Stack),
		right: broadcastMatrices(stack, b.Stack)}
	g.allRows, g.allChannels = g.parts*g.rows, g.channels
	for i := range g.parts {
		g.table = append(g.table, Part{Row: int32(i * g.rows), Sum: int32(g.left[i] * g.rows)})
	}
	return g, nil
}

// matricesIn is how many matrices a stack has.
func matricesIn(stack []int) int {
	n := 1
	for _, d := range stack {
		n *= d
	}
	return n
}

// broadcastStacks returns the shape of the stack that two broadcast to.
func broadcastStacks(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		x, y := 1, 1
		if j := i - (len(out) - len(a)); j >= 0 {
			x = a[j]
		}
		if j := i - (len(out) - len(b)); j >= 0 {
			y = b[j]
		}
		if out[i] = y; x != 1 {
			out[i] = x
		}
		if x != y && x != 1 && y != 1 {
			return nil, fmt.Errorf("cuda: stacks %v and %v of matrices do not broadcast", a, b)
		}
	}
	return out, nil
}

// broadcastMatrices returns which matrix of a stack each of a larger one is.
func broadcastMatrices(stack, of []int) []int {
	index := make([]int, matricesIn(stack))
	for i := range index {
		rest, at, size := i, 0, 1
		for a := len(stack) - 1; a >= 0; a-- {
			k := rest % stack[a]
			rest /= stack[a]
			if j := a - (len(stack) - len(of)); j >= 0 {
				if of[j] > 1 {
					at += k * size
				}
				size *= of[j]
			}
		}
		index[i] = at
	}
	return index
}

// method chooses between the kernels. Products need bytes on both sides and padding that is a code.
func (g *layout) method(op *LinearOp) string {
	bytes := func(c Codes) bool {
		return c.Type == Int8 && c.Zero >= -128 && c.Zero <= 127 || c.Type == Uint8 && c.Zero >= 0 && c.Zero <= 255
	}
	switch {
	case op.Wide || op.Transposed || !bytes(op.X) || op.Weights == nil && op.Y.Type != Int8 && op.Y.Type != Uint8:
		return "direct"
	case g.depthwise(op):
		return "depthwise"
	case op.Saturating || g.taps*g.depth == 0 || g.parts > mostMatrices || g.conv && g.positions()*multiple(g.shape.C, 16) > math.MaxInt32:
		return "direct"
	case g.groups > 1 && g.depth%4 != 0 && !op.symmetric():
		return "direct"
	}
	return "product"
}

// positions is how many the input of a convolution has.
func (g *layout) positions() int { return g.shape.N * g.shape.D * g.shape.H * g.shape.W }

// symmetric reports whether the constant weights have zero points that are nothing once they are moved to int8.
func (op *LinearOp) symmetric() bool {
	shift, err := weightShift(op.Weights)
	for _, z := range op.WeightZero {
		if z != shift {
			return false
		}
	}
	return err == nil && (shift == 0 || len(op.WeightZero) > 0)
}

// merge makes one group of several small ones, which would fill a tile mostly with zeros: it has the fewest that make 32 output
// channels and pieces of 16 input channels. Weights between different groups are zero.
func (l *Linear) merge(g *layout) *layout {
	if !g.conv || g.groups == 1 || g.channels >= 32 && g.depth%4 == 0 || !l.op.symmetric() {
		return g
	}
	m := 1
	for m < g.groups && (g.groups%m != 0 || g.channels*m < 32 || g.depth*m%16 != 0) {
		m++
	}
	one := &layout{shape: g.shape, conv: true, rows: g.rows, channels: g.channels * m, allRows: g.allRows, allChannels: g.allChannels,
		depth: g.depth * m, taps: g.taps, lefts: 1, merged: m}
	one.groups = g.groups / m
	one.parts, one.rights = one.groups, one.groups
	one.parted()
	return one
}

// parted makes the parts of a convolution: its groups.
func (g *layout) parted() {
	for i := range g.groups {
		g.table = append(g.table, Part{Channel: int32(i * g.channels), Correction: int32(i * g.channels), Sum: int32(i * g.rows)})
		g.left, g.right = append(g.left, 0), append(g.right, i)
	}
}

// weightsOf returns the weights of a part by channel, tap and depth, as at(channel, tap, c), and a channel's zero point.
func (g *layout) weightsOf(op *LinearOp, p int) (at func(n, tap, c int) int32, zero func(n int) int32) {
	zero = func(n int) int32 {
		if len(op.WeightZero) == 0 {
			return 0
		}
		return op.WeightZero[(int(g.table[p].Channel)+n)%len(op.WeightZero)]
	}
	switch {
	case !g.conv:
		w := op.Weights[g.right[p]*g.depth*g.channels:]
		return func(n, _, c int) int32 { return w[c*op.Right.ByRow+n*op.Right.ByCol] }, zero
	case op.Transposed: // [C, M/Group, taps]
		w := op.Weights[p*g.depth*g.channels*g.taps:]
		return func(n, tap, c int) int32 { return w[(c*g.channels+n)*g.taps+tap] }, zero
	}
	if g.merged > 1 {
		depth, channels := g.depth/g.merged, g.channels/g.merged
		w := op.Weights[p*g.channels*depth*g.taps:]
		shift, _ := weightShift(op.Weights)
		return func(n, tap, c int) int32 {
			if n/channels != c/depth {
				return shift
			}
			return w[(n*depth+c%depth)*g.taps+tap]
		}, zero
	}
	w := op.Weights[p*g.channels*g.depth*g.taps:]
	return func(n, tap, c int) int32 { return w[(n*g.depth+c)*g.taps+tap] }, zero
}

// weightShift is what is taken from all weights so that they fit into int8.
func weightShift(w []int32) (int32, error) {
	if len(w) == 0 {
		return 0, nil
	}
	lo, hi := slices.Min(w), slices.Max(w)
	switch {
	case lo >= -128 && hi <= 127:
		return 0, nil
	case lo >= 0 && hi <= 255:
		return 128, nil
	}
	return 0, fmt.Errorf("cuda: weights from %d to %d are wider than 8 bits", lo, hi)
}

// biasOf returns the bias of a channel.
func (op *LinearOp) biasOf(c int) int32 {
	if len(op.Bias) == 0 {
		return 0
	}
	return op.Bias[c%len(op.Bias)]
}

// int32Bytes, partBytes and pieceBytes are tables as the device reads them.
func int32Bytes(v []int32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out
}

func partBytes(list []Part) []byte {
	out := make([]byte, 0, 32*len(list))
	for _, p := range list {
		out = binary.LittleEndian.AppendUint64(out, uint64(p.X))
		out = binary.LittleEndian.AppendUint64(out, uint64(p.W))
		out = append(out, int32Bytes([]int32{p.Row, p.Channel, p.Correction, p.Sum})...)
	}
	return out
}

func pieceBytes(list []piece) []byte {
	out := make([]byte, 0, 16*len(list))
	for _, p := range list {
		out = append(out, int32Bytes([]int32{p.offset, p.z, p.y, p.x})...)
	}
	return out
}

// constant and work are the addresses of a section of the constants, and of the workspace.
func (a *LinearArgs) constant(at int) driver.Ptr { return a.Constants.Ptr + driver.Ptr(at) }
func (a *LinearArgs) work(at int) driver.Ptr     { return a.Workspace.Ptr + driver.Ptr(at) }
