package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// Depthwise mirrors the struct of depthwise.cu.
type Depthwise struct {
	X, W, Pieces, Parts  driver.Ptr
	Width, Fours         Divisor
	Channels, Rows, Each int32
	Groups               int32
	Fill, _              uint32
	Few                  [28]piece
	Window               windows
	Epilogue             Epilogue
}

// depthwise reports whether the kernel for one input channel per output channel can do it: channels in fours, weights whose zero
// point is that of int8.
func (g *layout) depthwise(op *LinearOp) bool {
	if !g.conv || op.Transposed || g.depth != 1 || g.channels != 1 || g.groups%4 != 0 {
		return false
	}
	return op.symmetric()
}

// three reports whether the window is 3 x 3 of stride 1 or 2.
func (g *layout) three() bool {
	s := g.shape
	return s.D == 1 && s.KD == 1 && s.OutD == 1 && s.PadFront == 0 && s.KH == 3 && s.KW == 3 && s.DilH == 1 && s.DilW == 1 &&
		s.StrideH == s.StrideW && s.StrideH <= 2
}

func (l *Linear) prepareDepthwise(g *layout) error {
	op := &l.op
	if !g.depthwise(op) || op.Wide || op.X.Type != Int8 && op.X.Type != Uint8 {
		return fmt.Errorf("cuda: not a depthwise convolution of bytes")
	}
	shift, err := weightShift(op.Weights)
	if err != nil {
		return err
	}
	// Taps go four to a word, or a line of three to a word.
	n, lines := g.allChannels, g.three()
	perWord := 4
	if lines {
		perWord = 3
	}
	groups := ceilDiv(g.taps, perWord)
	packed := make([]byte, max(groups, 7)*n*4)
	correction := make([]int32, n)
	for c := range n {
		sum := int32(0)
		for tap, q := range op.Weights[c*g.taps:][:g.taps] {
			packed[(tap/perWord*n+c)*4+tap%perWord] = byte(q - shift)
			sum += q - shift
		}
		correction[c] = op.biasOf(c) - op.X.Zero*sum
	}
	// All channels are one part.
	one := *g
	one.parts, one.channels, one.table = 1, n, []Part{{}}
	win, tap := windowOf(g.shape, g.shape.C)
	pieces := win.piecesOf(tap, 1, 1, multiple(g.taps, 4))
	p := Depthwise{Width: DivisorOf(n / 4), Fours: DivisorOf(ceilDiv(g.shape.OutW, 4)), Channels: int32(n), Rows: int32(g.rows),
		Each: 1, Groups: int32(groups), Fill: uint32(uint8(op.X.Zero)) * 0x01010101, Window: win}
	entry, threads := "many", 0
	switch {
	case lines:
		entry = fmt.Sprintf("three%d", g.shape.StrideH)
		p.Rows = int32(g.shape.N * g.shape.OutH)
		threads = int(p.Rows) * int(p.Fours.By) * (n / 4)
	case groups <= 7:
		entry = "some"
		if groups <= 3 {
			entry = "few"
		}
		copy(p.Few[:], win.piecesOf(tap, 1, 1, len(p.Few)))
	}
	if !lines { // several rows a thread share its weights, as long as there are threads enough
		p.Each = int32(min(max(g.rows*(n/4)/(l.device.Multiprocessors*2048), 1), 8))
		threads = ceilDiv(g.rows, int(p.Each)) * (n / 4)
	}
	l.method = "depthwise " + entry
	if entry += "_u8"; op.X.Type == Int8 {
		entry = entry[:len(entry)-2] + "s8"
	}
	w, c := l.constants.add(packed), l.constants.add(int32Bytes(correction))
	parts, list := l.constants.add(partBytes(one.table)), l.constants.add(pieceBytes(pieces))
	corr := func(a *LinearArgs) corrections { return corrections{correction: a.constant(c)} }
	main, finish, err := l.prepareOutputs(&one, 1, parts, corr)
	if err != nil {
		return err
	}
	kernel, err := l.device.Kernel("depthwise", entry)
	if err != nil {
		return err
	}
	grid := driver.Dim{X: uint32(ceilDiv(threads, 128)), Y: 1, Z: 1}
	l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
		p.X, p.W, p.Pieces, p.Parts = a.X.Ptr, a.constant(w), a.constant(list), a.constant(parts)
		p.Epilogue = main.bind(a, corr(a))
		return Launch(s, kernel, grid, driver.Dim{X: 128, Y: 1, Z: 1}, 0, &p)
	})
	return finish()
}
