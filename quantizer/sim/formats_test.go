package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// book lists the numbers of a format by hand: of floats with e exponent bits, m mantissa bits and a bias, up to largest.
func book(format string) []float64 {
	float := func(e, m, bias int, largest float64) []float64 {
		var list []float64
		for exp := range 1 << e {
			for man := range 1 << m {
				v := math.Ldexp(1+float64(man)/float64(int(1)<<m), exp-bias)
				if exp == 0 {
					v = math.Ldexp(float64(man)/float64(int(1)<<m), 1-bias)
				}
				if v <= largest {
					list = append(list, v, -v)
				}
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	integers := func(lo, hi int) []float64 {
		var list []float64
		for i := lo; i <= hi; i++ {
			list = append(list, float64(i))
		}
		return list
	}
	switch format {
	case "e4m3":
		return float(4, 3, 7, 448)
	case "e5m2":
		return float(5, 2, 15, 57344)
	case "e2m1":
		return float(2, 1, 1, 6)
	case "nf4": // arXiv:2305.14314, appendix E, to the digits of float32
		return []float64{-1, -0.6961928, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
			-0.09105003625154495, 0,
			0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
			0.7229568362236023, 1}
	case "int8":
		return integers(-127, 127)
	case "int4":
		return integers(-7, 7)
	case "int2":
		return integers(-1, 1)
	}
	return integers(-32767, 32767)
}

// scaleByHand is the scale of a part whose largest magnitude is most, that of the whole tensor is all.
func scaleByHand(s tqc.Scheme, numbers []float64, most, all float64) float64 {
	largest := numbers[len(numbers)-1]
	top := math.Exp2(math.Floor(math.Log2(largest)))
	if most == 0 {
		return 1
	}
	switch {
	case s.Blocks == tqc.MX:
		return math.Exp2(math.Floor(math.Log2(most)) - math.Log2(top))
	case s.Blocks == tqc.MXCeil || s.PowerOf2:
		return math.Exp2(math.Ceil(math.Log2(most / largest)))
	case s.Blocks == tqc.NV:
		g, e4m3 := all/2688, book("e4m3")
		return nearest(e4m3, max(most/(6*g), 1.0/512)) * g
	}
	return most / largest
}

func nearest(numbers []float64, v float64) float64 {
	best := numbers[0]
	for _, n := range numbers {
		if math.Abs(n-v) < math.Abs(best-v) {
			best = n
		}
	}
	return best
}

// partsByHand gives each element of a [4, 40, 3] tensor the number of its part.
func partsByHand(s tqc.Scheme, axis int) []int {
	shape := [3]int{4, 40, 3}
	out := make([]int, 480)
	for i := range out {
		at := [3]int{i / 120, i / 3 % 40, i % 3}
		switch {
		case s.Channel:
			out[i] = at[axis]
		case s.Token:
			out[i] = i / 3
		case s.Group > 0:
			at[axis] /= s.Group
			shape[axis] = 40 // enough
			out[i] = at[0]*10000 + at[1]*100 + at[2]
		}
	}
	return out
}

// Every format and granularity, of constants and at run time, is what a search over its numbers gives in float64: but for numbers nearly in
// the middle of two, where float32 and float64 may differ.
func TestFormatsByHand(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	data := make([]float32, 480)
	for i := range data {
		data[i] = float32(r.NormFloat64() * math.Exp2(float64(i%7)))
	}
	for i := 120; i < 240; i++ {
		data[i] = 0 // whole parts of zeros
	}
	x := tensor.FromF32(data, 4, 40, 3)
	compared := 0
	for _, format := range []string{"int2", "int4", "int8", "int16", "e4m3", "e5m2", "e2m1", "nf4"} {
		for _, grain := range []string{"tensor", "channel", "g16", "g32", "mx32", "mx32ceil", "nv16", "dynamic-tensor", "dynamic-token",
			"tensor-pow2", "g16-pow2"} {
			s, err := tqc.ParseScheme(format + "-sym-" + grain)
			if err != nil {
				require.True(t, grain == "nv16" || format == "nf4", "%v", err)
				continue
			}
			for _, runTime := range []bool{false, true} {
				if runTime != s.AtRunTime() && (runTime || s.Dynamic) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v", s, runTime), func(t *testing.T) {
					numbers := book(format)
					parts := partsByHand(s, 1)
					most, all := map[int]float64{}, 0.0
					for i, v := range data {
						most[parts[i]] = max(most[parts[i]], math.Abs(float64(v)))
						all = max(all, math.Abs(float64(v)))
					}
					cfg, err := s.Apply(tqc.Config{})
					require.NoError(t, err)
					cfg.Axis = 1
					p := &tqc.Params{}
					if runTime {
						if cfg = cfg.OfActivation(); s.Blocks == tqc.NV {
							p.Scale, p.ZeroPoint = []float32{float32(all / 2688)}, []int32{0}
						}
					} else {
						order := slices.Clone(parts) // parts ascend as the row-major scales do
						slices.Sort(order)
						for _, part := range slices.Compact(order) {
							p.Scale, p.ZeroPoint = append(p.Scale, float32(scaleByHand(s, numbers, most[part], all))), append(p.ZeroPoint, 0)
						}
					}
					out := tensor.New(tensor.Float32, 4, 40, 3)
					require.NoError(t, sim.Apply(out, x, &cfg, p, sim.Quantize))
					for i, v := range data {
						scale := float64(float32(scaleByHand(s, numbers, most[parts[i]], all)))
						want, q := nearest(numbers, float64(v)/scale), float64(v)/scale
						near := nearest(numbers, q*(1+1e-6)) != nearest(numbers, q*(1-1e-6))
						if !near {
							compared++
							require.InDelta(t, want*scale, float64(out.F32()[i]), 1e-6*math.Abs(want*scale), "%g at scale %g", v, scale)
						}
					}
				})
			}
		}
	}
	require.Greater(t, compared, 50000)
}
