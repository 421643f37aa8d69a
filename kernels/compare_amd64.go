//go:build !purego

package kernels

// compareRows returns the comparison and the parts of an instruction set, nil for plain Go.
func compareRows(isa string) (compare, parts func(*sums)) {
	switch isa {
	case "avx512":
		return compareAVX512, partsAVX512
	case "avx2":
		return compareAVX2, partsAVX2
	}
	return nil, nil
}

// moves reports whether choose and turn go with an instruction set of elementwise rows. They are no values: arguments stay on the stack.
func moves(isa string) bool { return isa == "avx2" }

func choose(t *moveTile) { chooseAVX2(t) }
func turn(t *moveTile)   { turnAVX2(t) }

// columnsRow returns the sums by column of an instruction set, nil for plain Go.
func columnsRow(isa string) func(*columnsTile) {
	switch isa {
	case "avx512":
		return columnsAVX512
	case "avx2":
		return columnsAVX2
	}
	return nil
}

// wideRow returns the sums of products of float64 of an instruction set, nil for plain Go.
func wideRow(isa string) func(*wideTile) {
	switch isa {
	case "avx512":
		return wideAVX512
	case "avx2":
		return wideAVX2
	}
	return nil
}
