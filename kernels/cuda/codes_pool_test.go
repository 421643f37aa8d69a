package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

// poolCase is a window over images.
type poolCase struct {
	images, channels                              int
	in, out, kernel, stride, dilation, begin, end []int
}

var poolCases = []poolCase{
	{2, 16, []int{6, 7}, []int{3, 4}, []int{3, 3}, []int{2, 2}, []int{1, 1}, []int{1, 1}, []int{1, 1}},
	{1, 5, []int{5, 4}, []int{3, 2}, []int{2, 3}, []int{2, 1}, []int{1, 1}, []int{0, 0}, []int{1, 0}}, // a window over the end
	{1, 12, []int{9}, []int{5}, []int{3}, []int{2}, []int{2}, []int{2}, []int{2}},
	{2, 4, []int{3, 4, 5}, []int{2, 2, 3}, []int{2, 3, 1}, []int{1, 1, 2}, []int{1, 1, 1}, []int{0, 0, 0}, []int{0, 0, 0}},
	{1, 3, []int{4, 4}, []int{1, 1}, []int{4, 4}, []int{1, 1}, []int{1, 1}, []int{0, 0}, []int{0, 0}},
	{1, 8, []int{2, 2}, []int{4, 3}, []int{1, 1}, []int{1, 2}, []int{1, 1}, []int{1, 2}, []int{1, 1}}, // windows without input
}

// each calls f for every output element: its number, and for every tap the input element, or -1 and whether it is padding.
func (c *poolCase) each(f func(at int, taps [][2]int)) {
	rank := len(c.in)
	n := c.images * count(c.out) * c.channels
	for at := range n {
		ch, rest := at%c.channels, at/c.channels
		pos := make([]int, rank)
		for a := rank - 1; a >= 0; a-- {
			pos[a], rest = rest%c.out[a], rest/c.out[a]
		}
		var taps [][2]int
		for t := range count(c.kernel) {
			k, from, inside, padding := t, 0, true, 1
			place := make([]int, rank)
			for a := rank - 1; a >= 0; a-- {
				place[a] = pos[a]*c.stride[a] - c.begin[a] + k%c.kernel[a]*c.dilation[a]
				k /= c.kernel[a]
				inside = inside && place[a] >= 0 && place[a] < c.in[a]
				if place[a] < -c.begin[a] || place[a] >= c.in[a]+c.end[a] {
					padding = 0
				}
			}
			for a := range place {
				from = from*c.in[a] + place[a]
			}
			if !inside {
				taps = append(taps, [2]int{-1, padding})
				continue
			}
			taps = append(taps, [2]int{(rest*count(c.in)+from)*c.channels + ch, 1})
		}
		f(at, taps)
	}
}

func (c *poolCase) window(t *testing.T) cuda.Window {
	w, err := cuda.NewWindow(c.in, c.out, c.kernel, c.stride, c.dilation, c.begin, c.end)
	require.NoError(t, err)
	return w
}

func TestMaxPoolCodes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newBench(t, d, 7)
		for i, c := range poolCases {
			for _, channels := range []int{c.channels, 16, 8, 20} {
				c.channels = channels
				g := qmath.Grid{QMin: codes[(i+channels)%5][0], QMax: codes[(i+channels)%5][1]}
				e := element(g)
				q := b.some(g, c.images*c.channels*count(c.in))
				want := make([]int32, c.images*c.channels*count(c.out))
				c.each(func(at int, taps [][2]int) {
					want[at] = g.QMin
					for _, tap := range taps {
						if tap[0] >= 0 {
							want[at] = max(want[at], q[tap[0]])
						}
					}
				})
				dst := b.room(len(want)*e.Size(), b.off(e))
				require.NoError(t, cuda.MaxPoolCodes(b.s, dst, b.put(rawCodes(e, q), b.off(e)), e, c.images, c.channels, c.window(t), g.QMin))
				require.Equal(t, want, codesFrom(e, b.get(dst)), "%s: %+v", e, c)
			}
		}
	})
}

// meanOf is the code of the mean of codes, as the integer program has it.
func meanOf(a *qmath.Average, q []int32, empty int32) int32 {
	if len(q) == 0 {
		return empty
	}
	if a.Float() {
		sum := float32(0)
		for _, v := range q {
			sum += float32(a.AverageTerm(v))
		}
		return a.AtFloat(sum)
	}
	sum := int32(0)
	for _, v := range q {
		sum += a.Term(v)
	}
	return a.At(sum)
}

// averages prepares means of first to last codes and uploads them; false where the profile has none for these grids.
func (b *bench) averages(p qmath.Profile, x, y qmath.Grid, first, last int, kind qmath.AverageKind,
	empty int32) (a cuda.Average, by map[int]*qmath.Average, ok bool) {
	by = map[int]*qmath.Average{}
	for n := first; n <= last; n++ {
		m, err := p.PrepareAverage(x, y, n, kind)
		if err != nil {
			return a, nil, false
		}
		by[n] = &m
	}
	table := b.put(cuda.PackAverages(first, last, func(n int) *qmath.Average { return by[n] }), 0)
	a, err := cuda.AverageOf(by[last], table.Ptr, first, empty)
	require.NoError(b.t, err)
	return a, by, true
}

func TestAveragePoolCodes(t *testing.T) {
	perProfile(t, func(b *bench, p qmath.Profile) {
		for done := 0; done < len(poolCases); {
			c, wide := poolCases[done], b.r.IntN(4) == 0
			x, y := grid(b.r, p, -7, -5, wide), limited(b.r, grid(b.r, p, -7, -5, wide))
			if b.r.IntN(3) == 0 {
				y.Scale, y.ZeroPoint, y.QMin, y.QMax = x.Scale, x.ZeroPoint, x.QMin, x.QMax
			}
			empty := min(max(y.ZeroPoint, y.QMin), y.QMax)
			a, by, ok := b.averages(p, x, y, 1, count(c.kernel), qmath.WindowMean, empty)
			if !ok {
				continue
			}
			done++
			padding := b.r.IntN(2) == 0
			q, want := b.some(x, c.images*c.channels*count(c.in)), make([]int32, c.images*c.channels*count(c.out))
			c.each(func(at int, taps [][2]int) {
				var members []int32
				for _, tap := range taps {
					if tap[0] >= 0 {
						members = append(members, q[tap[0]])
					} else if padding && tap[1] == 1 {
						members = append(members, x.ZeroPoint)
					}
				}
				want[at] = meanOf(by[len(members)], members, empty)
			})
			in, out := element(x), element(y)
			dst := b.room(len(want)*out.Size(), b.off(out))
			require.NoError(b.t, cuda.AveragePoolCodes(b.s, dst, b.put(rawCodes(in, q), b.off(in)), out, in, c.images, c.channels,
				c.window(b.t), padding, a))
			require.Equal(b.t, codesFrom(out, rawCodes(out, want)), codesFrom(out, b.get(dst)), "%s: %+v, padding counts: %t, %+v", p.Name, c,
				padding, by[1])
		}
	})
}
