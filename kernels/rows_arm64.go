//go:build !purego

package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

//go:generate go -C _asm run . -folder ..

func neon(f cpu.Features) bool    { return f.NEON }
func neonDot(f cpu.Features) bool { return f.NEONDot }

// vectorRows lists the rows written in assembly.
func vectorRows() []Row {
	return []Row{
		{Name: "gemm-neon-8x8", Op: OpGemm, ISA: "neon", Arith: ref.FMA32, MR: 8, NR: 8, runs: neon, tile: one(neonGemm)},
		{Name: "depthwise-neon-8x8", Op: OpDepthwise, ISA: "neon", Arith: ref.FMA32, MR: 8, NR: 8, runs: neon,
			tile: columns(neonWidth, neonDepthwise)},
		{Name: "max-window-neon-8x16", Op: OpMaxWindow, ISA: "neon", Arith: ref.Float32, MR: 8, NR: 16, runs: neon, tile: maxWindowNEON},
		{Name: "sum-window-neon-8x16", Op: OpSumWindow, ISA: "neon", Arith: ref.Float32, MR: 8, NR: 16, runs: neon, tile: sumWindowNEON},
		{Name: "add-neon", Op: OpAdd, ISA: "neon", Arith: ref.Float32, runs: neon, tile: addNEON},
		{Name: "sub-neon", Op: OpSub, ISA: "neon", Arith: ref.Float32, runs: neon, tile: subNEON},
		{Name: "mul-neon", Op: OpMul, ISA: "neon", Arith: ref.Float32, runs: neon, tile: mulNEON},
		{Name: "div-neon", Op: OpDiv, ISA: "neon", Arith: ref.Float32, runs: neon, tile: divNEON},
		{Name: "limit-neon", Op: OpLimit, ISA: "neon", Arith: ref.Float32, runs: neon, tile: limitNEON},
		{Name: "fake-neon", Op: OpFake, ISA: "neon", Arith: ref.Float32, runs: neon, tile: fakeNEON},
		{Name: "min-max-neon-4x4", Op: OpMinMax, ISA: "neon", Arith: ref.Float32, NR: 4, runs: neon, tile: minMaxNEON},
		{Name: "channel-min-max-neon-16", Op: OpChannelMinMax, ISA: "neon", Arith: ref.Float32, NR: 4, runs: neon, tile: channelMinMaxNEON},
		{Name: "bins-neon", Op: OpBins, ISA: "neon", Arith: ref.Float32, runs: neon, tile: binsNEON},
	}
}

// vectorMathRows lists the functions of one number and the row operations: the bits of AVX2.
func vectorMathRows() []Row {
	var list []Row
	for _, f := range []struct {
		op    Op
		arith Arith
		tile  func(*tile)
	}{
		{OpExp, ref.FMA32, expNEON},
		{OpSigmoid, ref.FMA32, sigmoidNEON},
		{OpTanh, ref.FMA32, tanhNEON},
		{OpErf, ref.FMA32, erfNEON},
		{OpSwish, ref.FMA32, swishNEON},
		{OpGelu, ref.FMA32, geluNEON},
		{OpGeluTanh, ref.FMA32, geluTanhNEON},
		{OpHardSigmoid, ref.Float32, hardSigmoidNEON},
		{OpHardSwish, ref.Float32, hardSwishNEON},
		{OpSqrt, ref.Float32, sqrtNEON},
		{OpRound, ref.Float32, roundNEON},
		{OpAddScalar, ref.Float32, addScalarNEON},
		{OpMulScalar, ref.Float32, mulScalarNEON},
		{OpDivScalar, ref.Float32, divScalarNEON},
		{OpScalarSub, ref.Float32, scalarSubNEON},
		{OpScalarDiv, ref.Float32, scalarDivNEON},
		{OpRowMax, ref.Float32, rowMaxNEON},
		{OpRowSum, ref.Float64, rowSumNEON},
		{OpRowSquares, ref.Float64, rowSquaresNEON},
		{OpRowExp, ref.FMA32, rowExpNEON},
		{OpNormalize, ref.Float64, normalizeNEON},
	} {
		list = append(list, Row{Name: f.op.String() + "-neon", Op: f.op, ISA: "neon", Arith: f.arith, runs: neon, tile: f.tile})
	}
	return list
}

// vectorInt8Rows lists the integer rows.
func vectorInt8Rows() []Row {
	return []Row{
		{Name: "gemm-u8s8-neondot-7x8", Op: OpGemmU8S8, ISA: "neondot", MR: 7, NR: 8, layout: quads8, runs: neonDot, tile8: neonGemm8},
		{Name: "depthwise-u8s8-neon-8x16", Op: OpDepthwiseU8S8, ISA: "neon", MR: 8, NR: 16, layout: flat8, runs: neon, tile8: depthwise8NEON},
		{Name: "scale-u8-neon", Op: OpScaleU8, ISA: "neon", runs: neon, store: scaleU8NEON},
		{Name: "shift-u8-neon", Op: OpShiftU8, ISA: "neon", runs: neon, store: shiftU8NEON},
		{Name: "scale-f32-neon", Op: OpScaleF32, ISA: "neon", runs: neon, store: scaleF32NEON},
	}
}

// vectorCodesRows lists the rows on bytes.
func vectorCodesRows() []Row {
	return []Row{
		{Name: "add-codes-neon", Op: OpAddCodes, ISA: "neon", runs: neon, codes: addCodesNEON},
		{Name: "add-fused-neon", Op: OpAddFused, ISA: "neon", runs: neon, codes: addFusedNEON},
		{Name: "to-codes-neon", Op: OpToCodes, ISA: "neon", runs: neon, codes: toCodesNEON},
		{Name: "to-codes-away-neon", Op: OpToCodesAway, ISA: "neon", runs: neon, codes: toCodesAwayNEON},
		{Name: "from-codes-neon", Op: OpFromCodes, ISA: "neon", runs: neon, codes: fromCodesNEON},
		{Name: "max-codes-neon", Op: OpMaxCodes, ISA: "neon", runs: neon, codes: maxCodesNEON},
	}
}

// vectorGroupsRows lists the rows of products of groups and of combinations.
func vectorGroupsRows() []Row {
	return []Row{
		groupsRow(OpGroups8, "neondot", neonDot, []func(*groupTile){groups8R1NEON, groups8R2NEON, groups8R3NEON}),
		groupsRow(OpGroups4, "neondot", neonDot, []func(*groupTile){groups4R1NEON, groups4R2NEON, groups4R3NEON}),
		groupsRow(OpGroupsFloat8, "neon", neon, []func(*groupTile){groupsFloat8NEON}),
		groupsRow(OpGroupsFloat4, "neon", neon, []func(*groupTile){groupsFloat4NEON}),
		{Name: "quantize-groups-neon", Op: OpQuantizeGroups, ISA: "neon", runs: neon, quantize: quantizeGroupsNEON},
		{Name: "combine-neon", Op: OpCombine, ISA: "neon", runs: neon, tile: combineNEON},
	}
}

// vectorGramRows lists the rows of sums of products of columns.
func vectorGramRows() []Row {
	return []Row{{Name: "gram-neon", Op: OpGram, ISA: "neon", MR: 1, NR: GramLanes, runs: neon, gram: gramNEON}}
}

// vectorUnitsRows lists the rows of sums in whole units.
func vectorUnitsRows() []Row {
	return []Row{{Name: "units-neon-16", Op: OpUnits, ISA: "neon", NR: 4, runs: neon, units: unitsNEON}}
}

// compareRows returns the comparison and the parts of an instruction set, nil for plain Go.
func compareRows(isa string) (compare, parts func(*sums)) {
	if isa == "neon" {
		return compareNEON, partsNEON
	}
	return nil, nil
}

// vectorPeaks lists the peaks. Ops is accumulators times lanes times two; SDOT adds four products per lane.
func vectorPeaks() []Peak {
	return []Peak{
		{Name: "fmla-neon", Kind: PeakFloat, ISA: "neon", Ops: 16 * 4 * 2, runs: neon, tile: fmaPeakNEON},
		{Name: "sdot-neondot", Kind: PeakInteger, ISA: "neondot", Ops: 16 * 16 * 2, runs: neonDot, tile: dotPeakNEON},
		{Name: "smlal-neon", Kind: PeakPairs, ISA: "neon", Ops: 16 * 4 * 2, runs: neon, tile: pairPeakNEON},
		{Name: "read-neon", Kind: PeakRead, ISA: "neon", runs: neon, tile: readNEON},
	}
}

const neonWidth = 8 // columns of the tiles

// neonGemm lets assembly add the products and finishes the sums as the plain Go tile does.
func neonGemm(t *tile) {
	var acc [64]float32
	if t.load != 0 {
		for i := range t.rows {
			copy(acc[i*neonWidth:][:t.cols], t.dst[i*t.ldd:])
		}
	}
	if len(t.panel) > 0 {
		gemmNEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	}
	for i := range t.rows {
		t.store(i, acc[i*neonWidth:][:t.cols])
	}
}

// neonDepthwise is neonGemm for depthwise tiles. What lies behind the last channel must not be read: a tile that has fewer
// than eight is copied, position by position of the window.
func neonDepthwise(t *tile) {
	var acc [64]float32
	if t.cols == neonWidth {
		depthwiseNEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	} else {
		var a [64]float32
		whole := segment{n: 1}
		for k, seg := range t.segs {
			for i := range t.rows {
				copy(a[i*neonWidth:][:t.cols], t.a[i*t.lda+seg.off:])
			}
			depthwiseNEON(&acc, &a[0], &t.panel[k*neonWidth], &whole, 1, neonWidth, t.rows)
		}
	}
	for i := range t.rows {
		t.store(i, acc[i*neonWidth:][:t.cols])
	}
}

// neonGemm8 lets assembly add the products. SDOT wants signed bytes: it sees those of a less 128, and an eighth row, of zeros,
// tells what that makes.
func neonGemm8(t *tile8) {
	var acc [64]int32
	const offset = 7 * neonWidth
	for i := range t.rows {
		copy(acc[i*neonWidth:][:neonWidth], t.init[i*t.ldi:])
	}
	if len(t.panel) > 0 {
		gemm8NEON(&acc, &t.a[0], &t.panel[0], &t.segs[0], len(t.segs), t.lda, t.rows)
	}
	for i := range t.rows {
		dst := t.dst[i*t.ldd:][:neonWidth]
		for j, v := range acc[i*neonWidth:][:neonWidth] {
			dst[j] = v - acc[offset+j]
		}
	}
}

// moves is false: elements are moved by plain Go here, and choose and turn are not called.
func moves(string) bool { return false }
func choose(*moveTile)  {}
func turn(*moveTile)    {}

// columnsRow returns nil: sums by column are plain Go here.
func columnsRow(string) func(*columnsTile) { return nil }

// wideRow returns nil: sums of products of float64 are plain Go here.
func wideRow(string) func(*wideTile) { return nil }
