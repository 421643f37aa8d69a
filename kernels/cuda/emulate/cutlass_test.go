package emulate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of matrix products say where elements stand by formulas of this project's, which the kernels follow too: one misunderstanding
// would be in both. Here the formulas are held against what NVIDIA publishes as the layouts of CUTLASS (github.com/NVIDIA/cutlass,
// include/cute):
//
//	mma.sync            atom/mma_traits_sm80.hpp at 468e0eaf: SM80_8x8x16, 16x8x16 and 16x8x32 with S32S8S8S32_TN
//	ldmatrix            atom/copy_traits_sm75.hpp at 474c1fd4: SM75_U32x1, x2, x4_LDSM_N and SM75_U16x2, x4, x8_LDSM_T
//	wgmma, sums         atom/mma_traits_sm90_gmma.hpp at 082a375c: CLayout_64xN
//	wgmma, memory       the same file: the canonical layouts that make_gmma_desc<Major::K> takes
//	wgmma, descriptors  arch/mma_sm90_desc.hpp at 19e8990d: the bit fields of GmmaDescriptor
//
// Those were written by others, and run on devices.

// cute is a layout of CuTe: a coordinate in each mode, counted with the first one fastest, is multiplied by its stride.
type cute struct{ shape, stride []int }

func (l cute) at(i int) (sum int) {
	for k, n := range l.shape {
		sum += i % n * l.stride[k]
		i /= n
	}
	return sum
}

func (l cute) size() int {
	n := 1
	for _, s := range l.shape {
		n *= s
	}
	return n
}

// held are the elements that a lane (or thread) has: by lane and place, as rows of the layout's matrix counted fastest.
type held struct{ lanes, values cute }

func (h held) at(lane, i, rows int) (row, col int) {
	x := h.lanes.at(lane) + h.values.at(i)
	return x % rows, x / rows
}

var (
	row8x8    = held{cute{[]int{4, 8}, []int{16, 1}}, cute{[]int{2}, []int{8}}}
	row8x16   = held{cute{[]int{4, 8}, []int{32, 1}}, cute{[]int{4}, []int{8}}}
	row16x8   = held{cute{[]int{4, 8}, []int{32, 1}}, cute{[]int{2, 2}, []int{16, 8}}}
	published = map[string][3]held{ // A by rows, B by columns, C by rows
		"m8n8k16":  {row8x16, row8x16, row8x8},
		"m16n8k16": {{cute{[]int{4, 8}, []int{64, 1}}, cute{[]int{4, 2}, []int{16, 8}}}, row8x16, row16x8},
		"m16n8k32": {{cute{[]int{4, 8}, []int{64, 1}}, cute{[]int{4, 2, 2}, []int{16, 8, 256}}},
			{cute{[]int{4, 8}, []int{32, 1}}, cute{[]int{4, 2}, []int{8, 128}}}, row16x8},
	}
)

func TestFragmentsAreThoseOfCUTLASS(t *testing.T) {
	require.Len(t, published, len(fragments))
	for _, f := range fragments {
		p := published[f.name]
		require.Equal(t, []int{f.m * f.k / 32, f.n * f.k / 32, f.m * f.n / 32}, []int{p[0].values.size(), p[1].values.size(), p[2].values.size()},
			f.name)
		for lane := range warpSize {
			for i := range p[0].values.size() {
				m, k := f.a(lane, i)
				row, col := p[0].at(lane, i, f.m)
				require.Equal(t, [2]int{row, col}, [2]int{m, k}, "%s: A, lane %d, byte %d", f.name, lane, i)
			}
			for i := range p[1].values.size() {
				k, n := f.b(lane, i)
				row, col := p[1].at(lane, i, f.n)
				require.Equal(t, [2]int{row, col}, [2]int{n, k}, "%s: B, lane %d, byte %d", f.name, lane, i)
			}
			for i := range p[2].values.size() {
				m, n := f.c(lane, i)
				row, col := p[2].at(lane, i, f.m)
				require.Equal(t, [2]int{row, col}, [2]int{m, n}, "%s: C, lane %d, register %d", f.name, lane, i)
			}
		}
	}
}

// TestLdmatrixIsThatOfCUTLASS: CuTe numbers the bits of all matrices, 128 to a row, and says which of them a lane has in its registers.
func TestLdmatrixIsThatOfCUTLASS(t *testing.T) {
	for _, count := range []int{1, 2, 4} {
		for trans, h := range map[bool]held{
			false: {cute{[]int{32}, []int{32}}, cute{[]int{32, count}, []int{1, 1024}}},
			true:  {cute{[]int{4, 8}, []int{256, 16}}, cute{[]int{16, 2, count}, []int{1, 128, 1024}}},
		} {
			got := loadedMatrices(t, count, trans)
			for lane := range warpSize {
				for i := range count {
					for half := range 2 {
						bit := h.lanes.at(lane) + h.values.at(32*i+16*half)
						require.Zero(t, bit%16)
						require.Equal(t, bit/16, got(lane, i, half), "x%d, transposed %v: lane %d, register %d", count, trans, lane, i)
					}
				}
			}
		}
	}
}

func TestWarpgroupSumsAreThoseOfCUTLASS(t *testing.T) {
	for _, n := range []int{8, 24, 64, 256} {
		h := held{cute{[]int{4, 8, 4}, []int{128, 1, 16}}, cute{[]int{2, 2, n / 8}, []int{64, 8, 512}}}
		require.Equal(t, n/2, h.values.size())
		for thread := range 128 {
			for i := range n / 2 {
				row, col := accumulator(thread, i)
				m, k := h.at(thread, i, 64)
				require.Equal(t, [2]int{m, k}, [2]int{row, col}, "n %d: thread %d, register %d", n, thread, i)
			}
		}
	}
}

// swizzled is CuTe's Swizzle<bits, 4, 3>: bits from 7 on are added without carry to those from 4 on.
func swizzled(address, bits int) int { return address ^ address&((1<<bits-1)<<7)>>3 }

// TestWarpgroupMemoryIsThatOfCUTLASS: a row is W pieces of 16 bytes, W by the mode; rows, pieces and groups of eight rows stand where the
// canonical layout ((8,m),(T,2)):((WT,SBO),(1,T or LBO)) says, and the address as a whole is swizzled.
func TestWarpgroupMemoryIsThatOfCUTLASS(t *testing.T) {
	types := []struct{ w, bits int }{{1, 0}, {8, 3}, {4, 2}, {2, 1}} // by layout_type: INTERLEAVE, B128, B64, B32
	for _, l := range layouts {
		mode := types[l.mode]
		piece := 16
		if mode.w == 1 {
			piece = l.leading
		}
		for r := range 64 {
			for k := range 32 {
				address := l.offset + l.from + r%8*mode.w*16 + r/8*l.stride + k/16*piece + k%16
				require.Equal(t, swizzled(address, mode.bits), l.place(r, k), "%s: row %d, byte %d", l.name, r, k)
			}
		}
	}
}

// TestDescriptorsAreThoseOfCUTLASS: each field of a descriptor, alone, is where GmmaDescriptor has it.
func TestDescriptorsAreThoseOfCUTLASS(t *testing.T) {
	fields := []struct {
		name       string
		from, bits int
		of         func(m descriptor) uint64 // as the field holds it
	}{
		{"start_address_", 0, 14, func(m descriptor) uint64 { return m.start >> 4 }},
		{"leading_byte_offset_", 16, 14, func(m descriptor) uint64 { return m.leading >> 4 }},
		{"stride_byte_offset_", 32, 14, func(m descriptor) uint64 { return m.stride >> 4 }},
	}
	for _, f := range fields {
		for bit := range f.bits {
			m, err := decodeDescriptor(1 << (f.from + bit))
			require.NoError(t, err)
			for _, o := range fields {
				want := uint64(0)
				if o.name == f.name {
					want = 1 << bit
				}
				require.Equal(t, want, o.of(m), "bit %d of %s, read as %s", bit, f.name, o.name)
			}
		}
	}
	for bit := range 3 { // base_offset_: no kernel has one, and none is taken
		_, err := decodeDescriptor(1 << (49 + bit))
		require.ErrorContains(t, err, fmt.Sprintf("base offset of %d", 1<<bit))
	}
	for mode, row := range []uint64{16, 128, 64, 32} { // layout_type_: INTERLEAVE, B128, B64, B32
		m, err := decodeDescriptor(uint64(mode) << 62)
		require.NoError(t, err)
		require.Equal(t, row, m.row)
	}
	for _, unused := range []int{14, 15, 30, 31, 46, 47, 48, 52, 61} {
		m, err := decodeDescriptor(1 << unused)
		require.NoError(t, err)
		require.Equal(t, descriptor{row: 16}, m, "bit %d", unused)
	}
}
