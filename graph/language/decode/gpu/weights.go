package gpu

import (
	"qwb/graph/language/decode"
	"qwb/kernels"
	"qwb/kernels/cuda"
)

// matrix is a matrix on a device: codes in groups, or floats, column by column; of an embedding row by row.
type matrix struct {
	rows, cols int
	groups     *cuda.GroupMatrix
	float      bool // groups are multiplied with floats
	floats     cuda.Buffer
}

// Bytes implements decode.DeviceMatrix.
func (m *matrix) Bytes() int {
	if m.groups == nil {
		return m.floats.Bytes
	}
	return m.groups.Codes.Bytes + m.groups.Scales.Bytes
}

// Floats implements decode.DeviceModel: neighbouring threads multiply neighbouring columns of the transpose.
func (g *model) Floats(x []float32, rows, cols int) (decode.DeviceMatrix, error) {
	columns := make([]float32, len(x))
	for r := range rows {
		for k, v := range x[r*cols:][:cols] {
			columns[k*rows+r] = v
		}
	}
	b, err := upload(g, columns)
	return &matrix{rows: rows, cols: cols, floats: b}, err
}

// Rows implements decode.DeviceModel.
func (g *model) Rows(x []float32, cols int) (decode.DeviceMatrix, error) {
	b, err := upload(g, x)
	return &matrix{rows: len(x) / cols, cols: cols, floats: b}, err
}

// uploadPiece is how many elements of a matrix are read at once on their way to a device, at least.
const uploadPiece = 4 << 20

// Groups implements decode.DeviceModel: codes and scales go to the device piece by piece.
func (g *model) Groups(c kernels.GroupMatrix) (_ decode.DeviceMatrix, err error) {
	all := c.Rows * c.Cols
	m := &cuda.GroupMatrix{Rows: c.Rows, Cols: c.Cols, Size: c.Size, Bits: c.Bits}
	unit := c.Size
	if unit%8 != 0 {
		unit *= 8 // whole words of codes of 4 bits
	}
	if all%8 != 0 {
		m.Bits = 8
	}
	if m.Codes, err = g.alloc(all * m.Bits / 8); err != nil {
		return nil, err
	}
	if m.Scales, err = g.alloc(all / c.Size * 4); err != nil {
		g.free(m.Codes)
		return nil, err
	}
	piece := max(uploadPiece/unit, 1) * unit
	q, scales := make([]int8, min(piece, all)), make([]float32, min(piece, all)/c.Size)
	for from := 0; from < all; from += piece {
		n := min(piece, all-from)
		q, scales := q[:n], scales[:n/c.Size]
		c.Read(q, scales, from)
		if m.Bits == 4 {
			q = cuda.PackGroups4(q)
		}
		if err = g.stream.Upload(m.Codes.Slice(from*m.Bits/8, len(q)), asBytes(q)); err != nil {
			return nil, err
		}
		if err = g.stream.Upload(m.Scales.Slice(4*(from/c.Size), 4*len(scales)), asBytes(scales)); err != nil {
			return nil, err
		}
		if err = g.stream.Synchronize(); err != nil { // the memory is read anew
			return nil, err
		}
	}
	return &matrix{rows: c.Rows, cols: c.Cols, groups: m, float: c.Float}, nil
}
