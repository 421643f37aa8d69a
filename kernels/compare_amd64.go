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
