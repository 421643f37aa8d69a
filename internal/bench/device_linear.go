package bench

import (
	encoding "encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

// DeviceCases lists what is timed on a GPU. To add a case, add a line to the list of its family.
func DeviceCases() []DeviceCase { return slices.Concat(deviceLinear(), deviceCodes(), deviceFloats()) }

// deviceBatches are the numbers of pictures that layers of networks are timed for.
var deviceBatches = []int{1, 32, 256}

// deviceLinear are products of matrices and convolutions of codes.
func deviceLinear() []DeviceCase {
	list := []DeviceCase{deviceGemm(64, 48, 80, qmath.FloatAfter, true), deviceGemm(40, 72, 64, qmath.DoubleUpAway, true),
		deviceConv("small", 2, 6, 16, 24, 3, 1, 1, true), deviceConv("depthwise", 1, 7, 32, 32, 3, 1, 32, true)}
	for _, n := range []int{256, 512, 1024, 2048, 4096, 8192} {
		list = append(list, deviceGemm(n, n, n, qmath.FloatAfter, false))
	}
	for _, n := range []int{1024, 4096} { // what multipliers and shifts cost in place of a float factor
		list = append(list, deviceGemm(n, n, n, qmath.DoubleUpAway, false))
	}
	for _, rows := range []int{128, 32 * 128} { // BERT, a sequence of 128, alone and in a batch of 32
		for _, s := range [][2]int{{768, 768}, {3072, 768}, {768, 3072}} {
			list = append(list, deviceGemm(rows, s[0], s[1], qmath.FloatAfter, false))
		}
	}
	for _, n := range deviceBatches {
		list = append(list, deviceGemm(n, 1000, 2048, qmath.FloatAfter, false)) // a classifier
	}
	for _, n := range deviceBatches {
		for _, s := range []struct{ h, c, m, k, stride int }{{224, 3, 64, 7, 2}, {56, 64, 64, 1, 1}, {56, 64, 64, 3, 1}, {56, 64, 256, 1, 1},
			{56, 256, 128, 1, 1}, {56, 128, 128, 3, 2}, {28, 128, 128, 3, 1}, {28, 128, 512, 1, 1}, {28, 512, 1024, 1, 2}, {14, 256, 256, 3, 1},
			{14, 256, 1024, 1, 1}, {14, 1024, 256, 1, 1}, {7, 512, 512, 3, 1}, {7, 512, 2048, 1, 1}, {7, 2048, 512, 1, 1}} {
			list = append(list, deviceConv("resnet50", n, s.h, s.c, s.m, s.k, s.stride, 1, false))
		}
		for _, s := range []struct{ h, c, k, stride int }{{112, 32, 3, 1}, {56, 144, 3, 2}, {28, 120, 5, 1}, {14, 576, 3, 1}, {7, 960, 3, 1}} {
			list = append(list, deviceConv("depthwise", n, s.h, s.c, s.c, s.k, s.stride, s.c, false))
		}
		list = append(list, deviceConv("grouped", n, 14, 512, 512, 3, 1, 32, false)) // ResNeXt-50
	}
	for _, s := range []struct { // windows of ResNet-50
		rows, k int
		small   bool
	}{{40, 70, true}, {56 * 56, 576, false}, {14 * 14, 2304, false}, {7 * 7, 4608, false}} {
		list = append(list, deviceGram(s.rows, s.k, s.small))
	}
	return list
}

// deviceGram sums the products of all pairs of columns of rows of codes, which are four products of bytes each.
func deviceGram(rows, k int, small bool) DeviceCase {
	c := moving("gram", fmt.Sprintf("rows=%d k=%d", rows, k), "int8", small, cuda.GramSumsBytes(1, k), []int{2 * rows * k, 4 * rows, 4 * k},
		func(_ *DeviceWork, s *cuda.Stream, sums cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			for i, list := range []struct{ n, step int }{{rows, k}, {k, 1}} {
				var at []byte
				for j := range list.n {
					at = encoding.LittleEndian.AppendUint32(at, uint32(j*list.step))
				}
				if err := s.Upload(src[1+i], at); err != nil {
					return nil, err
				}
			}
			return func(s *cuda.Stream) error { return cuda.Gram(s, sums, src[0], src[1], src[2], 1, k) }, s.Fill(sums, 0)
		})
	c.Bound, c.Ops = BoundInt8, 4*float64(rows)*float64(k)*float64(k+1)
	return c
}

// formNote names the arithmetic where it is not the usual one.
func formNote(f qmath.Form) string {
	if f == qmath.FloatAfter {
		return ""
	}
	return " multiplier"
}

func deviceGemm(m, n, k int, form qmath.Form, small bool) DeviceCase {
	op := cuda.LinearOp{Left: cuda.Factor{Rows: m, Cols: k, ByRow: k, ByCol: 1}, Right: cuda.Factor{Rows: k, Cols: n, ByRow: n, ByCol: 1}}
	return deviceProduct(op, form, n, k,
		DeviceCase{Kind: "gemm", Shape: fmt.Sprintf("m=%d n=%d k=%d%s", m, n, k, formNote(form)), Small: small,
			Ops: 2 * float64(m) * float64(n) * float64(k), Bytes: float64(m*k + k*n + m*n), Bound: BoundInt8}, m*k, m*n, k*n)
}

func deviceConv(network string, batch, h, c, m, k, stride, group int, small bool) DeviceCase {
	s := square(h, c, m, k, stride, group)
	s.N = batch
	bound := BoundInt8
	if group == c { // a product per code that is read: bandwidth
		bound = BoundCopy
	}
	return deviceProduct(cuda.LinearOp{Window: &s}, qmath.FloatAfter, m, c/group*k*k, DeviceCase{Kind: "conv",
		Shape: fmt.Sprintf("%s n=%d h=%d c=%d m=%d k=%d stride=%d", network, batch, h, c, m, k, stride), Small: small, Batch: batch, Bound: bound,
		Ops: 2 * float64(s.OutLen()) * float64(c/group*k*k), Bytes: float64(s.InLen() + s.OutLen() + s.WeightLen())}, s.InLen(), s.OutLen(),
		s.WeightLen())
}

// deviceProduct completes a case: x, w and out are the lengths of the tensors, depth is how many products make a sum.
func deviceProduct(op cuda.LinearOp, form qmath.Form, channels, depth int, c DeviceCase, x, out, w int) DeviceCase {
	c.Mode = "int8"
	c.Prepare = func(s *cuda.Stream) (*DeviceWork, error) {
		op.X = cuda.Codes{Type: cuda.Int8, Zero: 3}
		op.Weights = spread(w)
		op.Bias = make([]int32, channels)
		multiplier, err := factorOf(form, depth)
		if err != nil {
			return nil, err
		}
		op.Outputs = []cuda.LinearOut{{Type: cuda.Int8, Scaling: qmath.Scaling{Form: form}, Lo: -128, Hi: 127,
			Multipliers: make([]qmath.Multiplier, channels)}}
		for i := range op.Outputs[0].Multipliers {
			op.Outputs[0].Multipliers[i] = multiplier
		}
		l, err := s.Device.NewLinear(op)
		if err != nil {
			return nil, err
		}
		work := &DeviceWork{device: s.Device, Note: l.Method()}
		if err := work.linear(s, l, x, out); err != nil {
			work.Close()
			return nil, err
		}
		return work, nil
	}
	return c
}

// linear uploads what a product needs.
func (w *DeviceWork) linear(s *cuda.Stream, l *cuda.Linear, x, out int) (err error) {
	args := cuda.LinearArgs{Outputs: make([]cuda.Buffer, 1)}
	constants := l.Constants()
	if args.Constants, err = w.upload(s, len(constants), constants); err != nil {
		return err
	}
	if args.X, err = w.upload(s, x, noise(min(x, 1<<20))); err != nil {
		return err
	}
	if args.Outputs[0], err = w.alloc(out); err != nil {
		return err
	}
	if args.Workspace, err = w.alloc(l.WorkspaceBytes()); err != nil {
		return err
	}
	w.Run = func(s *cuda.Stream) error { return l.Launch(s, args) }
	return nil
}

// factorOf is a multiplier that spreads the sums of so many random products over the codes.
func factorOf(form qmath.Form, depth int) (qmath.Multiplier, error) {
	profile := "trt"
	if form == qmath.DoubleUpAway {
		profile = "tflite2"
	}
	p, err := qmath.ProfileNamed(profile)
	if err != nil {
		return qmath.Multiplier{}, err
	}
	return p.Prepare(qmath.Channel{X: 1, W: 1, Y: float32(128 * depth)})
}

// noise makes n bytes, each of any value.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		encoding.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	for i := n &^ 7; i < n; i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// spread makes n weights of 8 bits.
func spread(n int) []int32 {
	w := make([]int32, n)
	for i, b := range noise(n) {
		w[i] = int32(int8(b))
	}
	return w
}
