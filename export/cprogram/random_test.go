package cprogram_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/passes"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// network is a random graph in the making.
type network struct {
	*rand.Rand
	text       strings.Builder
	n          int
	c, h, w    int
	value      string
	candidates []string // values of the present shape
}

// name is a new name with the given letter.
func (r *network) name(letter string) string {
	r.n++
	return fmt.Sprintf("%s%d", letter, r.n)
}

// then makes y the present value, of the same shape as before if same is set.
func (r *network) then(y string, same bool) {
	if !same {
		r.candidates = nil
	}
	r.value, r.candidates = y, append(r.candidates, y)
}

func (r *network) line(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }

// conv adds a convolution with a random window; groups divide both numbers of channels.
func (r *network) conv() {
	k, stride, group, m := 1+r.IntN(3), 1+r.IntN(2), 1, 1+r.IntN(12)
	if r.IntN(3) == 0 {
		group, m = r.c, r.c*(1+r.IntN(2))
	}
	pad := r.IntN(k)
	if r.h+2*pad < k || r.w+2*pad < k {
		return
	}
	w, b, y := r.name("w"), r.name("b"), r.name("v")
	r.line("const %s: f32[%d,%d,%d,%d] = normal(seed=%d, std=%g)", w, m, r.c/group, k, k, r.n, 0.05+r.Float64())
	r.line("const %s: f32[%d] = normal(%d)", b, m, r.n)
	r.line("%s = Conv(%s, %s, %s) {pads=[%d,%d,%d,%d], strides=[%d,%d], group=%d}", y, r.value, w, b, pad, pad, pad, pad, stride, stride, group)
	r.c, r.h, r.w = m, (r.h+2*pad-k)/stride+1, (r.w+2*pad-k)/stride+1
	r.then(y, false)
}

// pool adds a pool with padding.
func (r *network) pool() {
	if r.h < 2 || r.w < 2 {
		return
	}
	y := r.name("v")
	op := []string{"MaxPool", "AveragePool"}[r.IntN(2)]
	more := ""
	if op == "AveragePool" {
		more = fmt.Sprintf(", count_include_pad=%d", r.IntN(2))
	}
	pad := r.IntN(2)
	r.line("%s = %s(%s) {kernel_shape=[2,2], strides=[2,1], pads=[%d,%d,%d,%d]%s}", y, op, r.value, pad, pad, pad, pad, more)
	r.h, r.w = (r.h+2*pad-2)/2+1, r.w+2*pad-1
	r.then(y, false)
}

// elementwise adds an operator that keeps the shape.
func (r *network) elementwise() {
	y := r.name("v")
	other := r.candidates[r.IntN(len(r.candidates))]
	switch r.IntN(7) {
	case 0:
		r.line("%s = Relu(%s)", y, r.value)
	case 1:
		r.line("%s = LeakyRelu(%s) {alpha=%g}", y, r.value, 0.01+r.Float64()/2)
	case 2:
		r.line("%s = Sigmoid(%s)", y, r.value)
	case 3:
		r.line("%s = HardSwish(%s)", y, r.value)
	case 4:
		r.line("%s = Add(%s, %s)", y, r.value, other)
	case 5:
		r.line("%s = Mul(%s, %s)", y, r.value, other)
	case 6:
		r.line("%s = Sub(%s, %s)", y, r.value, other)
	}
	r.then(y, true)
}

// join adds a Concat along the channels.
func (r *network) join() {
	y, n := r.name("v"), 1+r.IntN(2)
	list := r.value
	for range n {
		list += ", " + r.candidates[r.IntN(len(r.candidates))]
	}
	r.line("%s = Concat(%s) {axis=1}", y, list)
	r.c *= n + 1
	r.then(y, false)
}

// randomNetwork is the text of a graph of about ten operators.
func randomNetwork(seed uint64) string {
	r := &network{Rand: rand.New(rand.NewPCG(seed, 1)), value: "x"}
	r.c, r.h, r.w = 1+r.IntN(6), 3+r.IntN(20), 3+r.IntN(20)
	r.line("input x: f32[%d,%d,%d,%d]", 1+r.IntN(2), r.c, r.h, r.w)
	r.conv()
	if r.value == "x" {
		r.line("v = Relu(x)")
		r.then("v", true)
	}
	for range 6 + r.IntN(6) {
		switch k := r.IntN(8); {
		case k < 3:
			r.conv()
		case k < 6:
			r.elementwise()
		case k == 6:
			r.pool()
		case r.c < 32:
			r.join()
		}
	}
	text := r.text.String()
	if r.IntN(2) == 0 {
		text += fmt.Sprintf("g = GlobalAveragePool(%s)\nf = Flatten(g)\nconst wl: f32[%d,7] = normal(5)\nl = MatMul(f, wl)\ns = Softmax(l) {axis=1}\noutput s\n", r.value, r.c)
		return text
	}
	return text + "output " + r.value + "\n"
}

// disturbed moves scales and zero points of a set, some to the ends of what they can be.
func disturbed(t *testing.T, r *rand.Rand, set *tqc.Set) {
	saved := make([]tqc.Saved, set.NumSlots())
	for i := range saved {
		saved[i] = set.Save(tqc.SlotID(i))
		s := set.Slot(tqc.SlotID(i))
		if s.State() != tqc.Activated || s.Weight || s.Config.Observer == tqc.ObserverFixed || s.Config.Policy.Has(tqc.PerChannel) {
			continue
		}
		p := saved[i].Params
		p.Scale, p.ZeroPoint = append([]float32(nil), p.Scale...), append([]int32(nil), p.ZeroPoint...)
		p.Scale[0] *= float32(0.2 + 2*r.Float64())
		if s.Config.Policy.Has(tqc.Asymmetric) {
			switch r.IntN(4) {
			case 0:
				p.ZeroPoint[0] = s.Config.QMin
			case 1:
				p.ZeroPoint[0] = s.Config.QMax
			case 2:
				p.ZeroPoint[0] = s.Config.QMin + int32(r.IntN(int(s.Config.QMax-s.Config.QMin+1)))
			}
		}
		saved[i].Params = p
	}
	require.NoError(t, set.Restore(saved))
}

// Random graphs with random shapes, scales and extreme zero points, on random inputs and on inputs that saturate: every integer of
// every step is that of the reference. QWB_RANDOM_PROGRAMS says how many.
func TestRandomPrograms(t *testing.T) {
	compiler(t)
	programs := 16
	if testing.Short() {
		programs = 4
	}
	if n, err := strconv.Atoi(os.Getenv("QWB_RANDOM_PROGRAMS")); err == nil {
		programs = n
	}
	total, made := 0, 0
	for seed := range uint64(programs) {
		r := rand.New(rand.NewPCG(seed, 2))
		profiles := qmath.Profiles()
		profile := profiles[r.IntN(len(profiles))]
		tg := *target.All[r.IntN(len(target.All))]
		if profile.Form == qmath.ShiftOnly {
			tg = target.ONNXRuntime
			tg.Activation.Policy |= tqc.PowerOf2
			tg.Weight.Policy |= tqc.PowerOf2
		}
		if r.IntN(4) == 0 && profile.Form != qmath.FloatTwice {
			tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerChannel|tqc.Linear, 0, 255
		}
		text := randomNetwork(seed)
		g := graphtest.Parse(t, text)
		require.Empty(t, graph.InferShapes(g))
		set, feeds := lowertest.Configure(t, g, &tg)
		if profile.Form != qmath.ShiftOnly {
			disturbed(t, r, set)
			_, err := passes.SolveBias(g, set)
			require.NoError(t, err)
		}
		p, err := lowered(g, set, &tg, profile.Name)
		if err != nil {
			t.Logf("seed %d, %s: %v", seed, profile.Name, err)
			continue
		}
		made++
		all := observed(p)
		binary := generated(t, all, nil, strict)
		e, err := program.New(all, program.Reference, 2)
		require.NoError(t, err, lower.Format(p))
		for k := range 3 {
			x := graphtest.Normal(seed*3+uint64(k), feeds["x"].Shape...)
			for i := range x.F32() {
				x.F32()[i] *= []float32{1, 0.1, 30}[k]
			}
			in := map[string]*tensor.Tensor{"x": x}
			want, err := e.Run(context.Background(), in, nil)
			require.NoError(t, err)
			total += same(t, all, want, execute(t, binary, all, in))
		}
	}
	t.Logf("%d programs, %d integers compared, 0 different", made, total)
	require.Greater(t, made, programs/2)
}
