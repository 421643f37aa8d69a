package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
)

// Tiled mirrors the struct of product.cuh.
type Tiled struct {
	X, W, Pieces, Fill, Parts driver.Ptr
	M, N, K                   int32
	PaddedN, Blocks, Each     int32
	TilesM, TilesN, Group     int32
	_                         int32
	Slice                     int64
	Window                    windows
	Epilogue                  Epilogue
}

// Gather mirrors the struct of linear.cu.
type Gather struct {
	X, Out             driver.Ptr
	Matrix, ByRow, Col int64
	Rows, Cols, Width  int32
	_                  int32
}

// Packing mirrors the struct of linear.cu.
type Packing struct {
	X, Out, Correction, Bias driver.Ptr
	Matrix, Packed           int64
	ByRow, ByCol             int64
	K, N, Padded             int32
	Flip, Zero, OwnZero      int32
	Blocks, _                int32
}

// RowSums mirrors the struct of linear.cu.
type RowSums struct {
	X, Out         driver.Ptr
	Part, ByCol    int64
	Rows, Channels int32
	Signed, Zero   int32
	Window         windows
	Taps           taps
}

// padN is what packed weights have columns in multiples of, unless a tile is wider.
const padN = 128

// tileGroup is how many tiles of rows a group has in the order of blocks.
const tileGroup = 8

// leftOperand is x as tiles read it: in pieces of size bytes, where it lies or in a copy.
type leftOperand struct {
	source string // of the kernel: plain, window or narrow
	size   int    // 16 or 4
	depth  int    // of a tap, as pieces have it
	base   int    // distance of the matrices
	win    windows
	tap    taps
	at     func(a *LinearArgs) driver.Ptr
}

// left finds out how tiles read x, and copies it where it is not in a form that they can read.
func (l *Linear) left(g *layout) (*leftOperand, error) {
	x := &leftOperand{source: "plain", size: 16, depth: g.depth, base: g.depth * g.rows, at: func(a *LinearArgs) driver.Ptr { return a.X.Ptr }}
	x.win, x.tap = lineOf(g.rows, g.leftFactor.ByRow)
	pitch, plain := g.leftFactor.ByRow, true
	switch s := g.shape; {
	case g.conv:
		x.win, x.tap = windowOf(s, s.C)
		pitch, x.base = s.C, 0
		plain = g.taps == 1 && s.StrideD*s.StrideH*s.StrideW == 1 && s.PadFront == 0 && s.PadTop == 0 && s.PadLeft == 0 &&
			s.OutD == s.D && s.OutH == s.H && s.OutW == s.W
	case g.rows == 1:
		pitch = g.depth
		x.win.pitch = int64(pitch)
	}
	gather := !g.conv && g.leftFactor.ByCol != 1
	switch {
	case !gather && pitch%16 == 0 && x.depth%16 == 0 && x.base%16 == 0:
	case !gather && pitch%4 == 0 && x.depth%4 == 0 && x.base%4 == 0 && (g.conv || g.lefts*g.rows*pitch <= math.MaxInt32):
		x.size = 4
	case g.groups > 1:
		return nil, fmt.Errorf("cuda: groups of %d channels are not for products", g.depth)
	default:
		if err := l.copied(g, x); err != nil {
			return nil, err
		}
	}
	switch {
	case x.size == 4:
		x.source = "narrow"
	case !plain:
		x.source = "window"
	}
	for i := range g.table {
		p := &g.table[i]
		if p.X = int64(g.left[i] * x.base); g.conv {
			p.X = int64(i * g.depth)
		}
	}
	return x, nil
}

// copied makes x a copy whose taps are whole pieces.
func (l *Linear) copied(g *layout, x *leftOperand) error {
	if x.size = 16; g.conv && g.depth < 12 {
		x.size = 4
	}
	x.depth = multiple(g.depth, x.size)
	at, err := l.prepareGather(g, x.depth)
	if err != nil {
		return err
	}
	x.at = func(a *LinearArgs) driver.Ptr { return a.work(at) }
	x.win.image = x.win.image / x.win.pitch * int64(x.depth)
	x.win.pitch = int64(x.depth)
	if x.base = x.depth * g.rows; g.conv {
		x.base = 0
	}
	return nil
}

// prepareProduct computes with tiles: x, brought into a form that they can read where it is not in one; the right factor packed; sums
// of rows where it has a zero point; the product; the outputs where there are several or k is in slices.
func (l *Linear) prepareProduct(g *layout) error {
	op := &l.op
	if op.Wide || op.Saturating || op.Transposed {
		return fmt.Errorf("cuda: products have exact sums of 32 bits, of windows that gather")
	}
	x, err := l.left(g)
	if err != nil {
		return err
	}
	k := g.taps * x.depth
	blocks := ceilDiv(k, 64)
	kernel := x.source + "_u8"
	if op.X.Type == Int8 {
		kernel = x.source + "_s8"
	}
	best, entry, shared, err := l.chooseKernel(job{m: g.rows, n: g.channels, blocks: blocks, parts: g.parts, narrow: x.size == 4,
		sms: max(l.device.Multiprocessors, 1), limit: l.device.SharedPerBlock, perSM: l.device.SharedPerBlock + 1024,
		tensorCores: l.device.TensorCores(), arch: l.device.Arch, tile: op.Tile, splits: op.Splits}, kernel)
	if err != nil {
		return err
	}
	padded := multiple(g.channels, max(padN, best.tile.N))
	blocks = best.blocks
	l.choice = tuned{best.tile.Name, best.splits}
	l.method = "product " + best.tile.Name + " " + x.source
	if best.splits > 1 {
		l.method += fmt.Sprintf(", %d slices of k", best.splits)
	}

	weights, corr, err := l.prepareRight(g, blocks, padded, x.depth)
	if err != nil {
		return err
	}
	parts := l.constants.add(partBytes(g.table))
	fill := l.constants.add(bytes.Repeat([]byte{byte(op.X.Zero)}, 16))
	pieces := fill
	if x.source != "plain" {
		pieces = l.constants.add(pieceBytes(x.win.piecesOf(x.tap, x.depth, x.size, blocks*64/x.size)))
	}
	main, finish, err := l.prepareOutputs(g, best.splits, parts, corr)
	if err != nil {
		return err
	}
	p := Tiled{M: int32(g.rows), N: int32(g.channels), K: int32(k), PaddedN: int32(padded), Blocks: int32(blocks), Each: int32(best.each),
		TilesM: int32(ceilDiv(g.rows, best.tile.M)), TilesN: int32(ceilDiv(g.channels, best.tile.N)), Group: tileGroup,
		Slice: int64(g.allRows) * int64(g.allChannels), Window: x.win}
	grid := driver.Dim{X: uint32(p.TilesM * p.TilesN), Y: uint32(best.splits), Z: uint32(g.parts)}
	block := driver.Dim{X: uint32(best.tile.Threads), Y: 1, Z: 1}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.W, p.Pieces, p.Fill, p.Parts = x.at(a), weights(a), a.constant(pieces), a.constant(fill), a.constant(parts)
		p.Epilogue = main.bind(a, corr(a))
		return Launch(s, entry, grid, block, shared, &p)
	})
	return finish()
}

// chooseKernel chooses a tile and loads it. A driver that is older than the PTX of the tiles of one compute capability does without.
func (l *Linear) chooseKernel(j job, entry string) (best choice, k *Kernel, shared int, err error) {
	if best, err = choose(j); err != nil {
		return best, nil, 0, err
	}
	k, shared, err = l.device.tileKernel(&best.tile, entry)
	var r *driver.Result
	if best.tile.arch == 0 || j.tile != "" || !errors.As(err, &r) || r.Code != driver.InvalidPTX && r.Code != driver.UnsupportedPTX {
		return best, k, shared, err
	}
	j.arch = 0
	if best, err = choose(j); err == nil {
		k, shared, err = l.device.tileKernel(&best.tile, entry)
	}
	return best, k, shared, err
}

// tileKernel loads an entry point of a tile and lets it have its shared memory.
func (d *Device) tileKernel(t *Tile, entry string) (k *Kernel, shared int, err error) {
	if k, err = d.Kernel("product_"+t.Name, entry); err != nil {
		return nil, 0, err
	}
	if shared = t.shared(d.TensorCores()); shared > 48<<10 {
		err = d.api.SetFunctionAttribute(d.context, k.function, driver.FunctionMaxDynamicShared, shared)
	}
	return k, shared, err
}

// prepareGather adds a step that copies x to rows of width bytes, and returns where they are in the workspace.
func (l *Linear) prepareGather(g *layout, width int) (at int, err error) {
	kernel, err := l.device.Kernel("linear", "gather")
	if err != nil {
		return 0, err
	}
	p := Gather{Rows: int32(g.rows), Cols: int32(g.depth), Width: int32(width), Matrix: int64(g.rows * g.depth),
		ByRow: int64(g.leftFactor.ByRow), Col: int64(g.leftFactor.ByCol)}
	matrices := g.lefts
	if g.conv {
		s := g.shape
		p.Rows, p.ByRow, p.Col = int32(g.positions()), int64(s.C), 1
		matrices = 1
	}
	at = l.reserve(matrices * int(p.Rows) * width)
	grid := driver.Dim{X: uint32(ceilDiv(int(p.Rows)*width/4, 256)), Y: 1, Z: uint32(matrices)}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.Out = a.X.Ptr, a.work(at)
		return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
	})
	return at, nil
}

// prepareRight packs the right factor, depth bytes for each tap, or adds the steps that do. It sets the parts' offsets in it.
func (l *Linear) prepareRight(g *layout, blocks, padded, depth int) (weights func(a *LinearArgs) driver.Ptr,
	corr func(a *LinearArgs) corrections, err error) {
	if l.op.Weights == nil {
		return l.prepareMoving(g, blocks, padded)
	}
	op := &l.op
	shift, err := weightShift(op.Weights)
	if err != nil {
		return nil, nil, err
	}
	size := blocks * padded * 64
	packed := make([]byte, g.rights*size)
	// Groups have channels of their own; a stack of constant matrices has corrections for each.
	stride := g.channels
	correction := make([]int32, g.parts*stride)
	zeros := make([]int32, g.allChannels)
	someZero := false
	for i := range g.table {
		p := &g.table[i]
		p.W, p.Correction = int64(g.right[i]*size), int32(i*stride)
		at, zero := g.weightsOf(op, i)
		for n := range g.channels {
			sum, zw := int32(0), zero(n)-shift
			for tap := range g.taps {
				for c := range g.depth {
					q := at(n, tap, c) - shift
					k := tap*depth + c
					packed[int(p.W)+(k/64*padded+n)*64+k%64] = byte(q)
					sum += q
				}
			}
			channel := int(p.Channel) + n
			correction[i*stride+n] = op.biasOf(channel) - op.X.Zero*sum + int32(g.taps*g.depth)*op.X.Zero*zw
			zeros[channel] = zw
			someZero = someZero || zw != 0
		}
	}
	w := l.constants.add(packed)
	c := l.constants.add(int32Bytes(correction))
	z, sums := -1, -1
	if someZero {
		z = l.constants.add(int32Bytes(zeros))
		if sums, err = l.prepareRowSums(g); err != nil {
			return nil, nil, err
		}
	}
	return func(a *LinearArgs) driver.Ptr { return a.constant(w) }, func(a *LinearArgs) corrections {
		t := corrections{correction: a.constant(c)}
		if z >= 0 {
			t.zeros, t.zerosStep, t.sums = a.constant(z), 1, a.work(sums)
		}
		return t
	}, nil
}

// prepareMoving adds the step that packs a right factor that is a tensor.
func (l *Linear) prepareMoving(g *layout, blocks, padded int) (weights func(a *LinearArgs) driver.Ptr,
	corr func(a *LinearArgs) corrections, err error) {
	op, b := &l.op, l.op.Right
	kernel, err := l.device.Kernel("linear", "pack")
	if err != nil {
		return nil, nil, err
	}
	p := Packing{Matrix: int64(b.Rows * b.Cols), Packed: int64(blocks * padded * 64), ByRow: int64(b.ByRow), ByCol: int64(b.ByCol),
		K: int32(g.depth), N: int32(g.channels), Padded: int32(padded), Blocks: int32(blocks), Zero: op.X.Zero, OwnZero: op.Y.Zero}
	if op.Y.Type == Uint8 {
		p.Flip, p.OwnZero = 0x80, op.Y.Zero-128
	}
	for i := range g.table {
		g.table[i].W = int64(g.right[i]) * p.Packed
		g.table[i].Correction = int32(g.right[i] * padded)
	}
	at := l.reserve(g.rights * int(p.Packed))
	correction := l.reserve(g.rights * padded * 4)
	bias, zero, sums := -1, -1, -1
	if op.Bias != nil {
		list := make([]int32, g.channels)
		for c := range list {
			list[c] = op.biasOf(c)
		}
		bias = l.constants.add(int32Bytes(list))
	}
	if p.OwnZero != 0 {
		zero = l.constants.add(int32Bytes([]int32{p.OwnZero}))
		if sums, err = l.prepareRowSums(g); err != nil {
			return nil, nil, err
		}
	}
	grid := driver.Dim{X: uint32(padded / 64), Y: 1, Z: uint32(g.rights)}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.Out, p.Correction, p.Bias = a.Right.Ptr, a.work(at), a.work(correction), 0
		if bias >= 0 {
			p.Bias = a.constant(bias)
		}
		return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
	})
	return func(a *LinearArgs) driver.Ptr { return a.work(at) }, func(a *LinearArgs) corrections {
		c := corrections{correction: a.work(correction)}
		if zero >= 0 {
			c.zeros, c.sums = a.constant(zero), a.work(sums)
		}
		return c
	}, nil
}

// prepareRowSums adds the step that sums the rows of x, for the zero points of the right factor, and returns where the sums are.
func (l *Linear) prepareRowSums(g *layout) (at int, err error) {
	kernel, err := l.device.Kernel("linear", "row_sums")
	if err != nil {
		return 0, err
	}
	p := RowSums{Rows: int32(g.rows), Channels: int32(g.depth), Zero: l.op.X.Zero, ByCol: 1}
	if l.op.X.Type == Int8 {
		p.Signed = 1
	}
	n := g.lefts
	if g.conv {
		p.Window, p.Taps = windowOf(g.shape, g.shape.C)
		p.Part, n = int64(g.depth), g.groups
	} else {
		p.Window, p.Taps = lineOf(g.rows, g.leftFactor.ByRow)
		p.Part, p.ByCol = int64(g.rows*g.depth), int64(g.leftFactor.ByCol)
	}
	at = l.reserve(n * g.rows * 4)
	grid := driver.Dim{X: uint32(ceilDiv(g.rows, 8)), Y: 1, Z: uint32(n)}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.Out = a.X.Ptr, a.work(at)
		return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
	})
	return at, nil
}
