package kernels

import "fmt"

// StoreScaled turns sums into codes by Scale and stores those of row i from Dst[i*Ldd] on. Residual, if not nil, is the codes of
// the other operand of an addition, with rows Ldr apart; it may be the same memory as Dst.
type StoreScaled struct {
	Dst      []uint8
	Ldd      int
	Residual []uint8
	Ldr      int
	Scale
}

func (o *StoreScaled) check(rows, cols int) {
	checkMatrix("dst", len(o.Dst), rows, cols, o.Ldd)
	if o.Residual != nil {
		checkMatrix("residual", len(o.Residual), rows, cols, o.Ldr)
	}
	checkScale(&o.Scale, cols)
}

func (o *StoreScaled) store(s *Sums) {
	t := s.scaled(&o.Scale)
	t.dst, t.ldd = o.Dst[s.Row*o.Ldd+s.Col:], o.Ldd
	if o.Residual != nil {
		t.plain = 0
		t.residual, t.ldr = o.Residual[s.Row*o.Ldr+s.Col:], o.Ldr
	}
	s.table.rows[OpScaleU8].store(t)
}

// StoreF32 stores Real of Scale, the value before the division and the rounding, that of row i from Dst[i*Ldd] on. There is no
// residual.
type StoreF32 struct {
	Dst []float32
	Ldd int
	Scale
}

func (o *StoreF32) check(rows, cols int) {
	checkMatrix("dst", len(o.Dst), rows, cols, o.Ldd)
	checkScale(&o.Scale, cols)
}

func (o *StoreF32) store(s *Sums) {
	t := s.scaled(&o.Scale)
	t.f32, t.ldd = o.Dst[s.Row*o.Ldd+s.Col:], o.Ldd
	s.table.rows[OpScaleF32].store(t)
}

func checkScale(s *Scale, cols int) {
	checkLen("factors", len(s.Factor), cols)
	if s.Bias != nil {
		checkLen("bias", len(s.Bias), cols)
	}
	if s.QMin > s.QMax {
		panic(fmt.Sprintf("kernels: codes %d to %d", s.QMin, s.QMax))
	}
}

// outTile is one call of an output kernel: the sums of one tile and what is done with them. Assembly reads it by offset; a test
// holds the offsets. All slices begin with the tile's first row and column; residual and scale.Bias may be nil.
type outTile struct {
	acc            []int32
	dst            []uint8
	f32            []float32
	residual       []uint8
	lacc, ldd, ldr int
	rows, cols     int

	scale        Scale   // Full
	least, most  float32 // QMin-Zero and QMax-Zero
	residualZero int32
	zero         int32
	plain        int // 1 if only factors are to be applied

	shift Shift // Full
	steps shiftSteps
}

// scaled returns the call for the tile, without what depends on the output's type.
func (s *Sums) scaled(scale *Scale) *outTile {
	t := s.out
	if t.rows == 0 { // the first tile of a piece
		t.scale = scale.Full()
		t.least, t.most = float32(t.scale.QMin)-float32(t.scale.Zero), float32(t.scale.QMax)-float32(t.scale.Zero)
		if t.plain = 0; t.scale.Bias == nil && t.scale.Divisor == 0 && scale.Lo == 0 && scale.Hi == 0 {
			t.plain = 1
		}
		t.residualZero, t.zero = int32(t.scale.ResidualZero), int32(t.scale.Zero)
	}
	t.acc, t.lacc, t.rows, t.cols = s.Acc, s.Stride, s.Rows, s.Cols
	t.scale.Factor = scale.Factor[s.Col:][:s.Cols]
	if scale.Bias != nil {
		t.scale.Bias = scale.Bias[s.Col:][:s.Cols]
	}
	return t
}

// goScaleU8 is the plain Go row of OpScaleU8.
func goScaleU8(t *outTile) {
	for i := range t.rows {
		dst := t.dst[i*t.ldd:][:t.cols]
		if t.residual == nil {
			for j, v := range t.acc[i*t.lacc:][:t.cols] {
				dst[j] = t.scale.Code(v, j, 0, false)
			}
			continue
		}
		r := t.residual[i*t.ldr:][:t.cols]
		for j, v := range t.acc[i*t.lacc:][:t.cols] {
			dst[j] = t.scale.Code(v, j, r[j], true)
		}
	}
}

// goScaleF32 is the plain Go row of OpScaleF32.
func goScaleF32(t *outTile) {
	for i := range t.rows {
		dst := t.f32[i*t.ldd:][:t.cols]
		for j, v := range t.acc[i*t.lacc:][:t.cols] {
			dst[j] = t.scale.Real(v, j, 0, false)
		}
	}
}
