package graph

// opTable is every operator that is known. A new family is one more slice here; a new operator is one more entry in the
// slice of its family.
var opTable = [][]OpSpec{
	convOps, matmulOps, elementwiseOps, activationOps, compareOps, poolOps, reduceOps, normOps, softmaxOps, reshapeOps, sliceOps,
	gatherOps, resizeOps, shapeOps, castOps, quantizeOps, qlinearOps, recurrentOps, controlOps, fusedOps,
	attentionOps, signalOps,
}

type opKey struct{ domain, op string }

var opIndex = indexOps(opTable)

func indexOps(families [][]OpSpec) map[opKey]*OpSpec {
	index := map[opKey]*OpSpec{}
	for _, family := range families {
		for i := range family {
			index[opKey{family[i].Domain, family[i].Name}] = &family[i]
		}
	}
	return index
}

// Ops returns all known operators in the order of the table.
func Ops() []*OpSpec {
	var all []*OpSpec
	for _, family := range opTable {
		for i := range family {
			all = append(all, &family[i])
		}
	}
	return all
}
