//go:build !purego

package kernels

// ofISA is the function of an instruction set, nil for plain Go.
func ofISA[T any](isa string, avx512, avx2 func(*T)) func(*T) {
	switch isa {
	case "avx512":
		return avx512
	case "avx2":
		return avx2
	}
	return nil
}

// compareRows returns the comparison and the parts of an instruction set, nil for plain Go.
func compareRows(isa string) (compare, parts func(*sums)) {
	return ofISA(isa, compareAVX512, compareAVX2), ofISA(isa, partsAVX512, partsAVX2)
}

// moves reports whether choose and turn go with an instruction set of elementwise rows. They are no values: arguments stay on the stack.
func moves(isa string) bool { return isa == "avx2" }

func choose(t *moveTile) { chooseAVX2(t) }
func turn(t *moveTile)   { turnAVX2(t) }

// columnsRow returns the sums by column of an instruction set, nil for plain Go.
func columnsRow(isa string) func(*columnsTile) { return ofISA(isa, columnsAVX512, columnsAVX2) }

// wideRow returns the sums of products of float64 of an instruction set, nil for plain Go.
func wideRow(isa string) func(*wideTile) { return ofISA(isa, wideAVX512, wideAVX2) }
