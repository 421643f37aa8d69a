package kernels

// goInt8Rows lists the integer rows in plain Go.
var goInt8Rows = []Row{
	{Name: "gemm-u8s8-go-4x4", Op: OpGemmU8S8, ISA: "go", MR: 4, NR: 4, layout: flat8, tile8: goGemm8},
	{Name: "depthwise-u8s8-go-8x16", Op: OpDepthwiseU8S8, ISA: "go", MR: 8, NR: 16, layout: flat8, tile8: goDepthwise8},
	{Name: "scale-u8-go", Op: OpScaleU8, ISA: "go", store: goScaleU8},
	{Name: "scale-f32-go", Op: OpScaleF32, ISA: "go", store: goScaleF32},
	{Name: "shift-u8-go", Op: OpShiftU8, ISA: "go", store: goShiftU8},
}

// saturatingGemm computes what VPMADDUBSW computes. No table selects it by itself.
var saturatingGemm = Row{Name: "gemm-u8s8-saturating-4x4", Op: OpGemmU8S8, ISA: "saturating", MR: 4, NR: 4, layout: flat8,
	tile8: goSaturating8}

// Saturating returns the table whose dense and grouped integer products saturate pairs of neighbouring products to int16, as
// kernels for processors without VNNI commonly do: see ref.Saturating. It is slow and serves to measure what that costs.
func (t *Table) Saturating() *Table { return t.With(saturatingGemm) }

// goGemm8 is the plain Go gemm tile.
func goGemm8(t *tile8) {
	const nr = 4
	for i := range t.rows {
		init := t.init[i*t.ldi:][:nr]
		s0, s1, s2, s3 := init[0], init[1], init[2], init[3]
		w := t.panel
		for _, seg := range t.segs {
			for _, x := range t.a[i*t.lda+seg.off:][:seg.n] {
				v, q := int32(x), w[:nr]
				s0 += v * int32(q[0])
				s1 += v * int32(q[1])
				s2 += v * int32(q[2])
				s3 += v * int32(q[3])
				w = w[nr:]
			}
		}
		dst := t.dst[i*t.ldd:][:nr]
		dst[0], dst[1], dst[2], dst[3] = s0, s1, s2, s3
	}
}

// goSaturating8 is the tile whose pairs of products saturate to int16. A pair may lie in two segments.
func goSaturating8(t *tile8) {
	const nr = 4
	for i := range t.rows {
		sums := t.dst[i*t.ldd:][:nr]
		copy(sums, t.init[i*t.ldi:][:nr])
		var pair [nr]int32
		w, odd := t.panel, false
		for _, seg := range t.segs {
			for _, x := range t.a[i*t.lda+seg.off:][:seg.n] {
				for j := range nr {
					if p := int32(x) * int32(w[j]); odd {
						sums[j] += min(max(pair[j]+p, -1<<15), 1<<15-1)
					} else {
						pair[j] = p
					}
				}
				w, odd = w[nr:], !odd
			}
		}
		if odd {
			for j := range nr {
				sums[j] += pair[j]
			}
		}
	}
}

// goDepthwise8 is the plain Go depthwise tile.
func goDepthwise8(t *tile8) {
	const nr = 16
	for i := range t.rows {
		sums := t.dst[i*t.ldd:][:nr]
		copy(sums, t.init[i*t.ldi:][:nr])
		for k, seg := range t.segs {
			x, w := t.a[i*t.lda+seg.off:][:t.cols], t.panel[k*nr:][:nr]
			for j, v := range x {
				sums[j] += int32(v) * int32(w[j])
			}
		}
	}
}
