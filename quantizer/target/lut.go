package target

// The targets that shift, as chips that have tables of 256 codes beside the shifters and no float at all: chains of functions of single
// elements (Sigmoid, Tanh, HardSwish, GELU written out) are one table each, LayerNormalization and Softmax are sums and quotients of
// integers, elements are moved in every way, and what has no form on integers is refused, for there is no host to compute it.
var (
	Pow2LUT  = withTables(&Pow2)
	XInt8LUT = withTables(&XInt8)
	FPGALUT  = withTables(&FPGA)
	NXPLUT   = withTables(&NXP)
)

func withTables(from *Target) Target {
	return derive(from, func(t *Target) {
		t.Name, t.Doc = t.Name+"_lut", t.Doc+"; functions of one number as tables of 256 codes, attention on integers, no float"
		t.Tables, t.Float = 8, FloatAbsent
		t.Fusions = nil // those of all four are islands in float
		t.put(movers...)
		t.put(Op{Type: "LayerNormalization", Role: Arithmetic, Needs: []Condition{OneOutput}}, Op{Type: "MatMul", Role: Weighted},
			Op{Type: "ReduceMean", Role: Arithmetic}, Op{Type: "Softmax", Role: Arithmetic, Needs: []Condition{OneAxis}})
	})
}
