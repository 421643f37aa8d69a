package ref

import "qwb/kernels/qmath"

// QSoftmax writes the softmax of every row of src, [rows, s.N], to dst, which may be src.
func QSoftmax[T Code](s *qmath.Softmax, dst, src []T, rows int) {
	row := make([]int32, s.N)
	for r := range rows {
		for i := range row {
			row[i] = int32(src[r*s.N+i])
		}
		s.Row(row, row)
		for i, q := range row {
			dst[r*s.N+i] = T(q)
		}
	}
}
