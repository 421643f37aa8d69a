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

// prepareProduct computes with tiles: x, brought into a form that they can read where it is not in one; the right factor packed; sums
// of rows where it has a zero point; the product; the outputs where there are several or k is in slices.
func (l *Linear) prepareProduct(g *layout) error {
	op := &l.op
	if op.Wide || op.Saturating || op.Transposed {
		return fmt.Errorf("cuda: products have exact sums of 32 bits, of windows that gather")
	}
	// Where x is: size of the pieces it is read in, 16, 4, or none where it has to be copied.
	source, size := "plain", 16
	win, tap := lineOf(g.rows, g.leftFactor.ByRow)
	pitch := g.leftFactor.ByRow
	plain := true
	if g.conv {
		win, tap = windowOf(g.shape, g.shape.C)
		pitch = g.shape.C
		s := g.shape
		plain = g.taps == 1 && s.StrideD*s.StrideH*s.StrideW == 1 && s.PadFront == 0 && s.PadTop == 0 && s.PadLeft == 0 &&
			s.OutD == s.D && s.OutH == s.H && s.OutW == s.W
	} else if g.rows == 1 {
		pitch = g.depth
		win.pitch = int64(pitch)
	}
	depth := g.depth // of a tap, as pieces have it
	gather := !g.conv && g.leftFactor.ByCol != 1
	base := g.depth * g.rows // distance of the matrices of the left factor
	if g.conv {
		base = 0
	}
	switch {
	case !gather && pitch%16 == 0 && depth%16 == 0 && base%16 == 0:
	case !gather && pitch%4 == 0 && depth%4 == 0 && base%4 == 0 && (g.conv || g.lefts*g.rows*pitch <= math.MaxInt32):
		size = 4
	case g.groups > 1:
		return fmt.Errorf("cuda: groups of %d channels are not for products", g.depth)
	default:
		gather = true
	}
	x := func(a *LinearArgs) driver.Ptr { return a.X.Ptr }
	if gather {
		size = 16
		if g.conv && g.depth < 12 {
			size = 4
		}
		depth = multiple(g.depth, size)
		at, err := l.prepareGather(g, depth)
		if err != nil {
			return err
		}
		x = func(a *LinearArgs) driver.Ptr { return a.work(at) }
		win.image = win.image / win.pitch * int64(depth)
		win.pitch = int64(depth)
		pitch = depth
		base = depth * g.rows
		if g.conv {
			base = 0
		}
	}
	switch {
	case size == 4:
		source = "narrow"
	case !plain:
		source = "window"
	}
	for i := range g.table {
		p := &g.table[i]
		if p.X = int64(g.left[i] * base); g.conv {
			p.X = int64(i * g.depth)
		}
	}

	k := g.taps * depth
	blocks := ceilDiv(k, 64)
	kernel := source + "_u8"
	if op.X.Type == Int8 {
		kernel = source + "_s8"
	}
	best, entry, shared, err := l.chooseKernel(job{m: g.rows, n: g.channels, blocks: blocks, parts: g.parts, narrow: size == 4,
		sms: max(l.device.Multiprocessors, 1), limit: l.device.SharedPerBlock, perSM: l.device.SharedPerBlock + 1024,
		tensorCores: l.device.TensorCores(), arch: l.device.Arch, tile: op.Tile, splits: op.Splits}, kernel)
	if err != nil {
		return err
	}
	padded := multiple(g.channels, max(padN, best.tile.N))
	blocks = best.blocks
	l.choice = tuned{best.tile.Name, best.splits}
	l.method = "product " + best.tile.Name + " " + source
	if best.splits > 1 {
		l.method += fmt.Sprintf(", %d slices of k", best.splits)
	}

	weights, corr, err := l.prepareRight(g, blocks, padded, depth)
	if err != nil {
		return err
	}
	parts := l.constants.add(partBytes(g.table))
	fill := l.constants.add(bytes.Repeat([]byte{byte(op.X.Zero)}, 16))
	pieces := fill
	if source != "plain" {
		pieces = l.constants.add(pieceBytes(win.piecesOf(tap, depth, size, blocks*64/size)))
	}
	main, finish, err := l.prepareOutputs(g, best.splits, parts, corr)
	if err != nil {
		return err
	}
	p := Tiled{M: int32(g.rows), N: int32(g.channels), K: int32(k), PaddedN: int32(padded), Blocks: int32(blocks), Each: int32(best.each),
		TilesM: int32(ceilDiv(g.rows, best.tile.M)), TilesN: int32(ceilDiv(g.channels, best.tile.N)), Group: tileGroup,
		Slice: int64(g.allRows) * int64(g.allChannels), Window: win}
	grid := driver.Dim{X: uint32(p.TilesM * p.TilesN), Y: uint32(best.splits), Z: uint32(g.parts)}
	block := driver.Dim{X: uint32(best.tile.Threads), Y: 1, Z: 1}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.W, p.Pieces, p.Fill, p.Parts = x(a), weights(a), a.constant(pieces), a.constant(fill), a.constant(parts)
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
