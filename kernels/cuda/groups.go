package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// GroupMatrix is a matrix of Rows x Cols codes on the device, in groups of Size neighbours with a scale each: kernels.GroupMatrix.
// Codes are bytes, or, of 4 bits, what PackGroups4 makes of them; a matrix of 4 bits has a multiple of 8 elements.
type GroupMatrix struct {
	Codes, Scales          Buffer
	Rows, Cols, Size, Bits int
}

func (m *GroupMatrix) check() error {
	n := m.Rows * m.Cols
	if m.Rows < 1 || m.Cols < 1 || m.Size < 1 || n%m.Size != 0 || m.Bits != 8 && (m.Bits != 4 || n%8 != 0) ||
		m.Codes.Bytes < n*m.Bits/8 || m.Scales.Bytes < n/m.Size*4 {
		return fmt.Errorf("cuda: %d x %d codes of %d bits in groups of %d are not in %d and %d bytes", m.Rows, m.Cols, m.Bits, m.Size,
			m.Codes.Bytes, m.Scales.Bytes)
	}
	return nil
}

// perRow is how many groups a row of activations has.
func (m *GroupMatrix) perRow() int { return (m.Cols + m.Size - 1) / m.Size }

type groupMatrix struct {
	codes, scales          driver.Ptr
	rows, cols, size, bits int32
}

func (m *GroupMatrix) params() groupMatrix {
	return groupMatrix{m.Codes.Ptr, m.Scales.Ptr, int32(m.Rows), int32(m.Cols), int32(m.Size), int32(m.Bits)}
}

// PackGroups4 packs codes of 4 bits in place and returns the first half of the memory, which they take then. Their number is a
// multiple of 8.
func PackGroups4(codes []int8) []int8 {
	for i := 0; i < len(codes); i += 8 {
		var word [4]int8
		for k := range word {
			word[k] = (codes[i+k]+8)&15 | (codes[i+4+k]+8)<<4
		}
		copy(codes[i/2:], word[:])
	}
	return codes[:len(codes)/2]
}

// GroupRows is rows of activations: Codes and Scales as QuantizeGroups writes them, or Floats as they are.
type GroupRows struct {
	Codes, Scales, Floats Buffer
	N                     int
}

type quantizeGroupsParams struct {
	x, codes, scales driver.Ptr
	groups           uint32
	cols, size       int32
	perRow           int32
}

// QuantizeGroups quantizes the rows of x, of cols elements, by ref.QuantizeRow.
func QuantizeGroups(s *Stream, to GroupRows, x Buffer, cols, size int) error {
	perRow := 0
	if cols > 0 && size > 0 {
		perRow = (cols + size - 1) / size
	}
	if perRow == 0 || x.Bytes < 4*to.N*cols || to.Codes.Bytes < to.N*cols || to.Scales.Bytes < 4*to.N*perRow {
		return fmt.Errorf("cuda: %d rows of %d in groups of %d do not go from %d bytes to %d and %d", to.N, cols, size, x.Bytes, to.Codes.Bytes,
			to.Scales.Bytes)
	}
	p := quantizeGroupsParams{x.Ptr, to.Codes.Ptr, to.Scales.Ptr, uint32(to.N * perRow), int32(cols), int32(size), int32(perRow)}
	return launchFile(s, "groups", "quantize_groups", driver.Dim{X: (p.groups + 7) / 8, Y: 1, Z: 1}, 256, 0, &p)
}

type groupsProductParams struct {
	m                 groupMatrix
	x, scales, floats driver.Ptr
	y                 driver.Ptr
	n, perRow         int32
	blockRows, stride int32
}

// What src/groups.cu has as TOGETHER and PRODUCT_THREADS, and how much shared memory a block takes for terms at most.
const (
	groupsTogether = 4
	groupsThreads  = 256
	groupsShared   = 48 << 10
	tileGroups     = 16 // rows of activations that are worth a tile of tensor cores
)

// MulGroups writes the products of rows of activations with the rows of m to y, x.N x m.Rows: ref.DotGroups of codes, and
// ref.DotGroupsFloat where x has floats.
func MulGroups(s *Stream, y Buffer, m *GroupMatrix, x GroupRows) error {
	if err := m.check(); err != nil {
		return err
	}
	if y.Bytes < 4*x.N*m.Rows || x.Floats.Bytes < 4*x.N*m.Cols && (x.Codes.Bytes < x.N*m.Cols || x.Scales.Bytes < 4*x.N*m.perRow()) {
		return fmt.Errorf("cuda: %d rows of %d activations and %d results do not fit their buffers", x.N, m.Cols, m.Rows)
	}
	p := groupsProductParams{m: m.params(), x: x.Codes.Ptr, scales: x.Scales.Ptr, floats: x.Floats.Ptr, y: y.Ptr, n: int32(x.N),
		perRow: int32(m.perRow())}
	entry := "groups_codes"
	if x.Floats.Bytes > 0 {
		entry = "groups_floats"
	}
	if x.N >= tileGroups && entry == "groups_codes" && s.Device.TensorCores() && m.Bits == 8 && m.Size%32 == 0 && m.Cols%m.Size == 0 {
		grid := driver.Dim{X: uint32((x.N + 63) / 64), Y: uint32((m.Rows + 127) / 128), Z: 1}
		return launchFile(s, "groups", "groups_tiles", grid, groupsThreads, 0, &p)
	}
	p.stride = p.perRow | 1 // odd: rows begin in different banks
	together := min(x.N, groupsTogether)
	most := groupsShared / (4 * int(p.stride) * together)
	if m.Cols%m.Size != 0 || m.Size%(32/m.Bits) != 0 || most == 0 {
		blocks := (x.N*m.Rows + groupsThreads - 1) / groupsThreads
		return launchFile(s, "groups", "groups_plain", driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, groupsThreads, 0, &p)
	}
	// Some groups for every thread, but a block for every multiprocessor first.
	p.blockRows = int32(min(most, max(1, 4*groupsThreads/int(p.perRow)), 64, ceilDiv(m.Rows, max(s.Device.Multiprocessors, 1))))
	grid := driver.Dim{X: uint32((m.Rows + int(p.blockRows) - 1) / int(p.blockRows)), Y: uint32((x.N + groupsTogether - 1) / groupsTogether),
		Z: 1}
	return launchFile(s, "groups", entry, grid, groupsThreads, 4*int(p.stride*p.blockRows)*together, &p)
}

type embedParams struct {
	m      groupMatrix
	ids, x driver.Ptr
	n      uint32
	_      uint32
}

// EmbedGroups writes the rows of m that n int32 ids name to x, code times scale.
func EmbedGroups(s *Stream, x Buffer, m *GroupMatrix, ids Buffer, n int) error {
	if err := m.check(); err != nil {
		return err
	}
	if ids.Bytes < 4*n || x.Bytes < 4*n*m.Cols {
		return fmt.Errorf("cuda: %d rows of %d elements do not fit their buffers", n, m.Cols)
	}
	p := embedParams{m: m.params(), ids: ids.Ptr, x: x.Ptr, n: uint32(n)}
	return launchFile(s, "groups", "embed_groups", driver.Dim{X: uint32(n), Y: 1, Z: 1}, groupsThreads, 0, &p)
}

// launchFile launches an entry of a file of kernels.
func launchFile[P any](s *Stream, file, entry string, grid driver.Dim, threads uint32, shared int, p *P) error {
	k, err := s.Device.Kernel(file, entry)
	if err != nil {
		return err
	}
	return Launch(s, k, grid, driver.Dim{X: threads, Y: 1, Z: 1}, shared, p)
}
