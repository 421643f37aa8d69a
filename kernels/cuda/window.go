package cuda

import "qwb/kernels/ref"

// windows mirrors Windows of window.cuh.
type windows struct {
	outW, outH, outD Divisor
	in               [3]int32
	stride           [3]int32
	begin            [3]int32
	_                int32
	image, pitch     int64
}

// taps mirrors Taps of window.cuh.
type taps struct {
	size     [3]int32
	dilation [3]int32
}

// windowOf returns the window of a convolution whose positions have so many channels. s is Full.
func windowOf(s ref.ConvShape, channels int) (windows, taps) {
	w := windows{outW: DivisorOf(max(s.OutW, 1)), outH: DivisorOf(max(s.OutH, 1)), outD: DivisorOf(max(s.OutD, 1)),
		in:     [3]int32{int32(s.D), int32(s.H), int32(s.W)},
		stride: [3]int32{int32(s.StrideD), int32(s.StrideH), int32(s.StrideW)},
		begin:  [3]int32{int32(s.PadFront), int32(s.PadTop), int32(s.PadLeft)},
		image:  int64(s.D) * int64(s.H) * int64(s.W) * int64(channels), pitch: int64(channels)}
	return w, taps{size: [3]int32{int32(s.KD), int32(s.KH), int32(s.KW)}, dilation: [3]int32{int32(s.DilD), int32(s.DilH), int32(s.DilW)}}
}

// lineOf returns the window of the rows of a matrix, which are pitch elements apart.
func lineOf(rows, pitch int) (windows, taps) {
	one := [3]int32{1, 1, 1}
	return windows{outW: DivisorOf(max(rows, 1)), outH: DivisorOf(1), outD: DivisorOf(1), in: [3]int32{1, 1, int32(rows)}, stride: one,
		pitch: int64(pitch)}, taps{size: one, dilation: one}
}

// piece mirrors Piece of window.cuh.
type piece struct{ offset, z, y, x int32 }

// piecesOf lists where k comes from, in pieces of so many of the depth channels of each tap; what is behind the end lies outside.
func (w *windows) piecesOf(t taps, depth, size, count int) []piece {
	list := make([]piece, 0, count)
	for z := range t.size[0] {
		for y := range t.size[1] {
			for x := range t.size[2] {
				p := piece{z: z * t.dilation[0], y: y * t.dilation[1], x: x * t.dilation[2]}
				first := ((int64(p.z)*int64(w.in[1])+int64(p.y))*int64(w.in[2]) + int64(p.x)) * w.pitch
				for c := 0; c < depth; c += size {
					p.offset = int32(first) + int32(c)
					list = append(list, p)
				}
			}
		}
	}
	for len(list) < count {
		list = append(list, piece{x: -1 << 30})
	}
	return list
}
