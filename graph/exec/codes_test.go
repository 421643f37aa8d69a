package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// randomCodes returns 8-bit codes of type d, with the extremes among them.
func randomCodes(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	for i := range t.Len() {
		v := r.IntN(256)
		if r.IntN(8) == 0 {
			v = r.IntN(2) * 255
		}
		switch s := t.Data.(type) {
		case []uint8:
			s[i] = uint8(v)
		case []int8:
			s[i] = int8(v - 128)
		}
	}
	return t
}

// randomZeros returns no zero points, one, or n; many equal ones among them.
func randomZeros(r *rand.Rand, d tensor.DType, n int) *tensor.Tensor {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return randomCodes(r, d)
	case 2:
		t, one := tensor.New(d, n), randomCodes(r, d, 1)
		for i := range n {
			switch s := t.Data.(type) {
			case []uint8:
				s[i] = one.Data.([]uint8)[0]
			case []int8:
				s[i] = one.Data.([]int8)[0]
			}
		}
		return t
	}
	return randomCodes(r, d, n)
}

// runIntegers runs one node; some of the inputs but the first are constants.
func runIntegers(t *testing.T, r *rand.Rand, op, domain string, inputs []*tensor.Tensor, attrs ...graph.Attr) *tensor.Tensor {
	t.Helper()
	g := graph.New("", 13)
	g.Opsets = append(g.Opsets, graph.Opset{Domain: "com.microsoft", Version: 1})
	n := graph.Node{Name: "n", Op: op, Domain: domain, Attrs: attrs}
	feeds := map[string]*tensor.Tensor{}
	for i, x := range inputs {
		if x == nil {
			n.Inputs = append(n.Inputs, graph.NoValue)
			continue
		}
		name := fmt.Sprintf("i%d", i)
		v, err := g.AddValue(graph.Value{Name: name, DType: x.DType, Shape: graph.Static(x.Shape...)})
		require.NoError(t, err)
		if n.Inputs = append(n.Inputs, v); i > 0 && r.IntN(2) == 0 {
			g.SetConst(v, x)
			continue
		}
		feeds[name], g.Inputs = x, append(g.Inputs, v)
	}
	out, err := g.AddValue(graph.Value{Name: "o"})
	require.NoError(t, err)
	n.Outputs, g.Outputs = []graph.ValueID{out}, []graph.ValueID{out}
	_, err = g.AddNode(n)
	require.NoError(t, err)
	s, err := exec.NewPoisoned(g, exec.Options{Threads: 2})
	require.NoError(t, err)
	runner := s.NewRunner()
	var last *tensor.Tensor
	for range 2 {
		got, err := runner.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		if last != nil {
			require.True(t, tensor.Equal(last, got[0]), "a second run differs")
		}
		last = got[0]
	}
	return last
}

// centred returns codes less their zero points; channel says which of several belongs to a code.
func centred(t, zeros *tensor.Tensor, channel func(i int) int) []int32 {
	out, z := append([]int32(nil), t.Integers()...), []int32{0}
	if zeros != nil {
		z = zeros.Integers()
	}
	for i := range out {
		out[i] -= z[channel(i)%len(z)]
	}
	return out
}

// MatMulInteger is the sum of products that its name says, of every pair of types, with zero points of every form, of vectors, of
// stacks and where the inner dimension is empty.
func TestMatMulIntegerIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	types := []tensor.DType{tensor.Uint8, tensor.Int8}
	for i := range 150 {
		da, db := types[i%2], types[i/2%2]
		m, k, n := 1+r.IntN(40), r.IntN(90), 1+r.IntN(70)
		stack := []int{}
		if r.IntN(3) == 0 {
			stack = []int{1 + r.IntN(3)}
		}
		wide := r.IntN(2) == 0 // B is a stack too
		as, bs, count := append(stack[:len(stack):len(stack)], m, k), []int{k, n}, tensor.Count(stack)
		if wide {
			bs = append(stack[:len(stack):len(stack)], k, n)
		}
		a, b := randomCodes(r, da, as...), randomCodes(r, db, bs...)
		za, zb := randomZeros(r, da, m), randomZeros(r, db, n)
		if len(stack) > 0 && za != nil && za.Len() > 1 {
			za = nil
		}
		got := runIntegers(t, r, "MatMulInteger", "", []*tensor.Tensor{a, b, za, zb})
		left, right := centred(a, za, func(i int) int { return i / max(k, 1) % m }), centred(b, zb, func(i int) int { return i % n })
		want := make([]int32, count*m*n)
		for s := range count {
			from := 0
			if wide {
				from = s * k * n
			}
			for row := range m {
				for col := range n {
					sum := int32(0)
					for p := range k {
						sum += left[(s*m+row)*k+p] * right[from+p*n+col]
					}
					want[(s*m+row)*n+col] = sum
				}
			}
		}
		require.Equal(t, append(stack, m, n), got.Shape)
		require.Equal(t, want, got.Data, "%s x %s", a.Type(), b.Type())
	}
}

// ConvInteger is the sum over windows that its name says, with groups, padding, strides and dilation in one to three dimensions.
func TestConvIntegerIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	types := []tensor.DType{tensor.Uint8, tensor.Int8}
	for i := range 150 {
		dx, dw, dims := types[i%2], types[i/2%2], 1+r.IntN(3)
		group, cg, mg := 1, 1+r.IntN(9), 1+r.IntN(20)
		switch r.IntN(3) {
		case 0:
			group = 1 + r.IntN(3)
		case 1:
			group, cg, mg = 1+r.IntN(40), 1, 1+r.IntN(2)
		}
		n, c, m := 1+r.IntN(2), group*cg, group*mg
		xs, ws := []int{n, c}, []int{m, cg}
		var strides, dilations, pads, ends []int64
		out := []int{n, m}
		for range dims {
			k, d, s, p, e := 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(2), r.IntN(3), r.IntN(3)
			in := (k-1)*d + 1 + r.IntN(8)
			xs, ws = append(xs, in), append(ws, k)
			strides, dilations = append(strides, int64(s)), append(dilations, int64(d))
			pads, ends = append(pads, int64(p)), append(ends, int64(e))
			out = append(out, (in+p+e-(k-1)*d-1)/s+1)
		}
		x, w := randomCodes(r, dx, xs...), randomCodes(r, dw, ws...)
		var zx *tensor.Tensor
		if r.IntN(4) > 0 {
			zx = randomCodes(r, dx)
		}
		zw := randomZeros(r, dw, m)
		got := runIntegers(t, r, "ConvInteger", "", []*tensor.Tensor{x, w, zx, zw}, graph.Ints("strides", strides...),
			graph.Ints("dilations", dilations...), graph.Ints("pads", append(pads, ends...)...), graph.Int("group", int64(group)))
		require.Equal(t, out, got.Shape)
		want := make([]int32, tensor.Count(out))
		left, right := centred(x, zx, func(int) int { return 0 }), centred(w, zw, func(i int) int { return i * m / w.Len() })
		plane, inPlane, taps := tensor.Count(out[2:]), tensor.Count(xs[2:]), tensor.Count(ws[2:])
		for o := range want {
			img, ch := o/plane/m, o/plane%m
			for q := range cg {
				for tap := range taps {
					at, inside := 0, true
					for a, rest, pos := dims-1, tap, o%plane; a >= 0; a-- {
						y := pos%out[2+a]*int(strides[a]) + rest%ws[2+a]*int(dilations[a]) - int(pads[a])
						inside = inside && y >= 0 && y < xs[2+a]
						at += y * tensor.Count(xs[3+a:])
						pos, rest = pos/out[2+a], rest/ws[2+a]
					}
					if inside {
						want[o] += left[(img*c+ch/mg*cg+q)*inPlane+at] * right[(ch*cg+q)*taps+tap]
					}
				}
			}
		}
		require.Equal(t, want, got.Data, "%s x %s, group %d", x.Type(), w.Type(), group)
	}
}
