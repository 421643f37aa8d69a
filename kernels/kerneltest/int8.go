package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

// IntegerTables returns one table for every set of integer rows that a processor with features f executes, by name.
func IntegerTables(f cpu.Features) map[string]*kernels.Table {
	tables := map[string]*kernels.Table{"go": kernels.Select(cpu.Features{})}
	tables["saturating"] = tables["go"].Saturating()
	if f.AVX2 {
		tables["avx2"] = kernels.Select(cpu.Features{AVX2: true})
	}
	if f.AVXVNNI {
		tables["avxvnni"] = kernels.Select(cpu.Features{AVX2: true, AVXVNNI: true})
	}
	if f.AVX512 {
		tables["avx512"] = kernels.Select(cpu.Features{AVX2: true, AVX512: true})
	}
	if f.AVX512VNNI {
		tables["avx512vnni"] = kernels.Select(cpu.Features{AVX2: true, AVX512: true, AVX512VNNI: true})
	}
	if f.AMX {
		tables["amx"] = kernels.Select(f)
	}
	if f.NEONDot {
		tables["neondot"] = kernels.Select(cpu.Features{NEON: true, NEONDot: true})
	}
	return tables
}

// RunInteger runs the suite of the integer operations.
func (s Suite) RunInteger(t *testing.T) {
	t.Run("gemm", s.gemmU8S8)
	t.Run("groups", s.groups)
	t.Run("quantize groups", s.quantizeGroups)
	t.Run("misuse of groups", s.groupsMisuse)
	t.Run("combine", s.combine)
	t.Run("gemm of signed", s.gemmS8S8)
	t.Run("conv", s.convU8S8)
	t.Run("outputs", s.outputs)
	t.Run("several outputs", s.several)
	t.Run("bytes", s.bytewise)
	t.Run("misuse", s.misuseInteger)
}

// products is the arithmetic of the table's integer sums.
func (s Suite) products() ref.Products {
	if s.Table.Rows()[kernels.OpGemmU8S8].ISA == "saturating" {
		return ref.Saturating
	}
	return ref.Exact
}

// codes draws n bytes: in extreme data the ends of both ranges are frequent, so that pairs of products leave int16.
func codes(rng *rand.Rand, n int, extreme bool) []byte {
	x := make([]byte, n)
	for i := range x {
		if x[i] = byte(rng.Uint32()); extreme {
			x[i] = []byte{0, 255, 127, 128, 129, x[i]}[rng.IntN(6)]
		}
	}
	return x
}

// signed returns x as int8.
func signed(x []byte) []int8 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(&x[0])), len(x))
}

// bytesOf returns bytes of s.Memory with the elements of x.
func (s Suite) bytesOf(x []byte) []byte {
	y := s.Memory.NewBytes(len(x))
	copy(y, x)
	return y
}

// int32s returns n elements of s.Memory that are not zero.
func (s Suite) int32s(n int) []int32 {
	x := s.Memory.New(n)
	if n == 0 {
		return nil
	}
	y := unsafe.Slice((*int32)(unsafe.Pointer(&x[0])), n)
	for i := range y {
		y[i] = -777
	}
	return y
}

func requireEqual[T comparable](t *testing.T, want, got []T, format string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("%s: element %d of %d is %v, want %v", fmt.Sprintf(format, args...), i, len(want), got[i], w)
		}
	}
}

// randomTerms draws terms, with or without those of columns and rows, large enough to wrap.
func randomTerms(rng *rand.Rand, rows, cols int) kernels.Terms {
	draw := func(n int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(rng.Uint32()) >> rng.IntN(20)
		}
		return x
	}
	var terms kernels.Terms
	if rng.IntN(3) > 0 {
		terms.Column = draw(cols)
	}
	if rng.IntN(3) == 0 {
		terms.Row = draw(rows)
	}
	return terms
}

// addRows adds the row terms to dense sums.
func addRows(sums []int32, terms kernels.Terms, cols int) {
	if terms.Row != nil && cols > 0 {
		for i := range sums {
			sums[i] += terms.Row[i/cols]
		}
	}
}

// gemmSizes are sizes m, n, k around those of tiles, panels and groups.
func gemmSizes(rng *rand.Rand) [][3]int {
	var sizes [][3]int
	for m := range 30 {
		sizes = append(sizes, [3]int{m, 1 + rng.IntN(70), rng.IntN(40)})
	}
	for n := range 70 {
		sizes = append(sizes, [3]int{1 + rng.IntN(16), n, 1 + rng.IntN(20)})
	}
	for k := range 35 {
		sizes = append(sizes, [3]int{15, 33, k}, [3]int{1 + rng.IntN(7), 64, k})
	}
	return append(sizes, [3]int{450, 40, 20}, [3]int{3, 1000, 64}, [3]int{29, 70, 1203}, [3]int{2, 65, 4608})
}

func (s Suite) gemmU8S8(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for i, size := range gemmSizes(rng) {
		m, n, k := size[0], size[1], size[2]
		lda, ldd, ldb, trans := k+rng.IntN(3), n+rng.IntN(3), n, i%2 == 1
		if trans {
			ldb = k
		}
		for _, extreme := range []bool{false, true} {
			a, b, terms := s.bytesOf(codes(rng, extent(m, k, lda), extreme)), signed(codes(rng, k*n, extreme)), randomTerms(rng, m, n)
			packed := s.Table.PackGemmU8S8(b, k, n, ldb, trans)
			want := make([]int32, m*n)
			ref.GemmU8S8(s.products(), want, a, lda, b, ldb, trans, m, n, k, terms.Column)
			addRows(want, terms, n)
			for way, par := range s.ways() {
				dst := s.int32s(extent(m, n, ldd))
				packed.Run(par, a, lda, m, terms, &kernels.StoreS32{Dst: dst, Ldd: ldd})
				requireEqual(t, spread(want, m, n, ldd), dst, "m=%d n=%d k=%d trans=%v way %d", m, n, k, trans, way)
			}
			sums := make([]int32, n)
			ones := make([]byte, k)
			for i := range ones {
				ones[i] = 1
			}
			ref.GemmU8S8(ref.Exact, sums, ones, k, b, ldb, trans, 1, n, k, nil)
			requireEqual(t, sums, packed.Sums(), "sums n=%d k=%d trans=%v", n, k, trans)
			require.NoError(t, s.Memory.Check())
		}
	}
}

// spread lays dense rows ldd apart, with what int32s fills in between.
func spread(x []int32, m, n, ldd int) []int32 {
	y := make([]int32, extent(m, n, ldd))
	for i := range y {
		if y[i] = -777; i%ldd < n {
			y[i] = x[i/ldd*n+i%ldd]
		}
	}
	return y
}

// gemmS8S8 checks signed left-hand and unsigned right-hand matrices.
func (s Suite) gemmS8S8(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	if s.products() != ref.Exact {
		t.Skip("does not apply: saturation of products with a biased operand is checked by gemm")
	}
	for i, size := range gemmSizes(rng) {
		m, n, k := size[0], size[1], size[2]
		a, b, terms := s.bytesOf(codes(rng, m*k, true)), codes(rng, k*n, true), randomTerms(rng, m, n)
		ldb, trans := n, i%2 == 1
		if trans {
			ldb = k
		}
		want := make([]int32, m*n)
		for i := range m {
			for j := range n {
				for p := range k {
					at := p*ldb + j
					if trans {
						at = j*ldb + p
					}
					want[i*n+j] += int32(int8(a[i*k+p])) * (int32(b[at]) - 128)
				}
				if terms.Column != nil {
					want[i*n+j] += terms.Column[j]
				}
			}
		}
		addRows(want, terms, n)
		var packed kernels.GemmU8S8
		s.Table.RepackGemmU8U8(&packed, b, k, n, ldb, trans)
		var scratch []uint8
		for way, par := range s.ways() {
			dst := s.int32s(m * n)
			packed.RunS8(par, signed(a), k, m, &scratch, terms, &kernels.StoreS32{Dst: dst, Ldd: n})
			requireEqual(t, want, dst, "m=%d n=%d k=%d way %d", m, n, k, way)
		}
		require.NoError(t, s.Memory.Check())
	}
}

func (s Suite) convU8S8(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	shapes := convShapes(rng, 60)
	for c := range 4 { // depthwise 3x3 in every tile height, both strides
		for w := range 14 {
			channels := []int{3, 64, 96, 129}[c]
			shapes = append(shapes, kernels.ConvShape{N: 1, H: 4, W: w + 3, C: channels, M: channels, Group: channels, KH: 3, KW: 3, PadTop: 1,
				StrideH: 1 + w%2, StrideW: 1 + c%2, OutH: 2, OutW: (w+c%2)/(1+c%2) + 1})
		}
	}
	for i, shape := range shapes {
		src, w := s.bytesOf(codes(rng, shape.InLen(), i%2 == 0)), signed(codes(rng, shape.WeightLen(), i%2 == 0))
		zero := byte(rng.Uint32())
		full := shape.Full()
		positions := full.N * full.OutD * full.OutH * full.OutW
		terms := randomTerms(rng, positions, full.M)
		packed := s.Table.PackConvU8S8(w, shape)
		want := make([]int32, shape.OutLen())
		ref.ConvU8S8(s.products(), want, src, w, shape, zero, terms.Column)
		addRows(want, terms, full.M)
		var scratch []uint8
		for way, par := range s.ways() {
			dst := s.int32s(len(want))
			packed.Run(par, src, shape, zero, &scratch, terms, &kernels.StoreS32{Dst: dst, Ldd: full.M})
			requireEqual(t, want, dst, "%+v way %d", shape, way)
			scratch = s.bytesOf(codes(rng, len(scratch), true)) // what is there before must not matter
		}
		dst := s.int32s(len(want))
		packed.Run(nil, src, shape, zero, &scratch, terms, &kernels.StoreS32{Dst: dst, Ldd: full.M})
		requireEqual(t, want, dst, "%+v with its own scratch", shape)
		require.NoError(t, s.Memory.Check(), "%+v", shape)
	}
}
