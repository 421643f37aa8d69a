package cuda

import (
	"qwb/kernels/cuda/driver"
)

// Direct mirrors the struct of direct.cu.
type Direct struct {
	X, W, Parts        driver.Ptr
	ByCol              int64
	Rows, N, Depth     int32
	Width, Columns     Divisor
	Zero, Transposed   int32
	Saturating, Raised int32
	Wide               int32
	Window             windows
	Taps               taps
	Epilogue           Epilogue
}

// Widening mirrors the struct of linear.cu.
type Widening struct {
	X, Out             driver.Ptr
	Matrix, ByRow, Col int64
	K, N               int32
	Element            Element
	Zero               int32
}

// prepareDirect computes every output by a thread of its own.
func (l *Linear) prepareDirect(g *layout) error {
	op := &l.op
	l.method = "direct"
	size := op.X.Type.Size()
	p := Direct{ByCol: 1, Rows: int32(g.rows), N: int32(g.channels), Depth: int32(g.depth), Width: DivisorOf(g.parts * g.channels),
		Columns: DivisorOf(g.channels), Zero: op.X.Zero}
	if g.conv {
		p.Window, p.Taps = windowOf(g.shape, g.shape.C)
	} else {
		p.Window, p.Taps = lineOf(g.rows, g.leftFactor.ByRow)
		p.ByCol = int64(g.leftFactor.ByCol)
	}
	if op.Transposed {
		p.Transposed = 1
	}
	if op.Saturating {
		p.Saturating = 1
		if op.X.Type == Int8 {
			p.Raised = 128
		}
	}
	if op.Wide {
		p.Wide = 1
	}
	perPart := g.taps * g.depth * g.channels
	for i := range g.table {
		t := &g.table[i]
		t.W, t.Correction = int64(4*perPart*g.right[i]), t.Channel
		if t.X = int64(g.left[i] * g.rows * g.depth * size); g.conv {
			t.X = int64(i * g.depth * size)
		}
	}
	weights, err := l.prepareWide(g, perPart)
	if err != nil {
		return err
	}
	parts := l.constants.add(partBytes(g.table))
	bias := -1
	if op.Bias != nil {
		list := make([]int32, g.allChannels)
		for c := range list {
			list[c] = op.biasOf(c)
		}
		bias = l.constants.add(int32Bytes(list))
	}
	corr := func(a *LinearArgs) corrections {
		if bias < 0 {
			return corrections{}
		}
		return corrections{correction: a.constant(bias)}
	}
	main, finish, err := l.prepareOutputs(g, 1, parts, corr)
	if err != nil {
		return err
	}
	main.e.Vector = 0
	kernel, err := l.device.Kernel("direct", [...]string{"direct_s8", "direct_u8", "direct_s16", "direct_u16"}[op.X.Type])
	if err != nil {
		return err
	}
	grid := driver.Dim{X: uint32(ceilDiv(g.rows*g.parts*g.channels, 256)), Y: 1, Z: 1}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.W, p.Parts, p.Epilogue = a.X.Ptr, weights(a), a.constant(parts), main.bind(a, corr(a))
		return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
	})
	return finish()
}

// prepareWide makes the right factor numbers of 32 bits less their zero points, [parts][taps][depth][channels], or adds the step that
// does.
func (l *Linear) prepareWide(g *layout, perPart int) (func(a *LinearArgs) driver.Ptr, error) {
	op := &l.op
	if op.Weights != nil {
		list := make([]int32, g.rights*perPart)
		for i := range g.parts {
			at, zero := g.weightsOf(op, i)
			own := list[g.right[i]*perPart:][:perPart]
			for n := range g.channels {
				z := zero(n)
				for k := range g.taps * g.depth {
					own[k*g.channels+n] = at(n, k/g.depth, k%g.depth) - z
				}
			}
		}
		w := l.constants.add(int32Bytes(list))
		return func(a *LinearArgs) driver.Ptr { return a.constant(w) }, nil
	}
	kernel, err := l.device.Kernel("linear", "widen")
	if err != nil {
		return nil, err
	}
	p := Widening{Matrix: int64(g.depth * g.channels), ByRow: int64(op.Right.ByRow), Col: int64(op.Right.ByCol), K: int32(g.depth),
		N: int32(g.channels), Element: op.Y.Type, Zero: op.Y.Zero}
	at := l.reserve(4 * g.rights * perPart)
	grid := driver.Dim{X: uint32(ceilDiv(perPart, 256)), Y: 1, Z: uint32(g.rights)}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.Out = a.Right.Ptr, a.work(at)
		return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
	})
	return func(a *LinearArgs) driver.Ptr { return a.work(at) }, nil
}
