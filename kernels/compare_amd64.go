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
